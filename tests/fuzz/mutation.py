"""Mutation: bytes changed blindly, and documents whose values are changed for others."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from typing import Any

_NUMBERS = (0, 1, 0x7F, 0xFF, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1)
_HOSTILE: tuple[Any, ...] = (
    *(None, True, [], {}, "", -1, 0, 1.5, 2**31, 2**63, 2**64, 10**400, -0.0, 1e308),
    *(
        float("nan"),
        float("inf"),
        "\0",
        "\ud800",
        "\u202e",
        "\x1b[31m",
        "..",
        "../a",
        "/etc/passwd",
    ),
    *(".", "~", "a/b", "*", "%s{0}", "x" * 300, "x" * 100_000, "0" * 5000, [[]], {"": None}, "NaN"),
)
#: Stands for values nested deeper than Python follows; no document as such holds it.
_DEEP = "@deep@"
_DEPTH = 5_000


def mutated(data: bytes, generator: random.Random, others: Sequence[bytes] = ()) -> bytes:
    """Return bytes changed in one to six places, some by a piece of another input."""
    content = bytearray(data)
    for _ in range(generator.randint(1, 6)):
        place = generator.randrange(len(content) + 1)
        span = generator.choice((1, 2, 4, 8, 32))
        kind = generator.randrange(6 if others else 5)
        if kind == 0:
            content[place : place + span] = generator.randbytes(span)
        elif kind == 1:
            del content[place : place + span]
        elif kind == 2:
            content[place:place] = content[place : place + span] * generator.choice((1, 2, 100))
        elif kind == 3 and place < len(content):
            content[place] ^= 1 << generator.randrange(8)
        elif kind == 5:
            other = generator.choice(others)
            start = generator.randrange(len(other) + 1)
            content[place : place + span] = other[start : start + generator.randrange(1, 60)]
        else:
            number = generator.choice(_NUMBERS)
            content[place : place + 8] = number.to_bytes(8, "little")[:span]
    return bytes(content)


def mutated_document(data: bytes, generator: random.Random) -> bytes:
    """Return JSON with one to three values changed, left out or doubled; as it is if it is none."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return data
    for _ in range(generator.randint(1, 3)):
        document = _changed(document, generator)
    text = json.dumps(document, ensure_ascii=generator.random() < 0.9)
    deep = generator.choice(('{"a":', "[")) * _DEPTH
    return text.replace(f'"{_DEEP}"', deep).encode(errors="surrogatepass")


def _changed(value: Any, generator: random.Random) -> Any:
    """Return a value with one of those in it changed; of one without any, another one."""
    if not value or not isinstance(value, (dict, list)) or generator.random() < 0.1:
        return copy.deepcopy(generator.choice((*_HOSTILE, _DEEP)))
    key = generator.choice(list(value) if isinstance(value, dict) else range(len(value)))
    kind = generator.randrange(8)
    if kind == 0:
        del value[key]
    elif kind == 1 and isinstance(value, dict):
        value[str(generator.choice(_HOSTILE))] = value[key]
    elif kind == 1:
        value *= generator.choice((2, 3, 1000)) if len(value) < 1000 else 1
    else:
        value[key] = _changed(value[key], generator)
    return value
