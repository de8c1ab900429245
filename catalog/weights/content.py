"""What a file of weights holds: named tensors, under whichever keys a training script put them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import torch

from survey.errors import CheckpointError
from survey.text import first_names, shortened

#: Keys under which training scripts keep the weights, in the order they are looked for.
WRAPPERS = (
    "state_dict",
    "model_state_dict",
    "model_state",
    "model",
    "weights",
    "net",
    "network",
    "module",
)

#: Dicts that are looked through for the weights.
_WRAPPED_AT_MOST = 16

#: Entries of a dict, and values of each, that are looked at for a message.
_LOOKED_AT = 100


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a file, or of one of its containers."""

    #: The weights on the CPU, by the file's keys.
    tensors: dict[str, torch.Tensor]
    #: Module path to the layout version that torch saved with the keys; empty where it saved none.
    versions: dict[str, dict[str, int]]
    #: Entries beside the weights that are not tensors.
    dropped_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Content:
    """What a file of weights holds, as plain data and tensors."""

    #: The file.
    path: Path
    #: What was saved: dicts, lists, numbers and tensors; objects of other classes are left out.
    payload: object = field(repr=False)

    def weights(self, container: tuple[str, ...] = ()) -> Weights:
        """Return the weights under a path of keys.

        Parameters
        ----------
        container : tuple of str
            Keys that lead from the top of the file to the weights; empty to look for them at the
            top and under the usual wrappers.

        Raises
        ------
        CheckpointError
            If nothing is there, or no named tensors are.
        """
        state = self._under(container) if container else _unwrapped(self.payload)
        entries = _entries(state) or {}
        # Detached they are plain: a file may give its tensors attributes like its dicts.
        tensors = {
            key: torch.Tensor.detach(value)
            for key, value in entries.items()
            if isinstance(key, str) and isinstance(value, torch.Tensor)
        }
        if not tensors:
            where = f"under {' > '.join(container)}" if container else "at the top"
            wrappers = "" if container else f" and under {', '.join(WRAPPERS)}"
            parts = [
                ".".join((*container, each)) for each in _holding_tensors(state or self.payload)
            ]
            raise CheckpointError(
                f"{self.path} holds no named tensors: {_description(entries or self.payload)};"
                f" weights are looked for {where}{wrappers}{_naming(parts)}",
                hint="save model.state_dict() with torch.save or safetensors",
            )
        dropped = tuple(str(key) for key in entries if key not in tensors)
        return Weights(tensors, _saved_versions(state), dropped)

    def part(self, name: str) -> tuple[tuple[str, ...], str]:
        """Return where a part of the file lies that a user names, such as ``teacher.backbone``.

        Returns
        -------
        container : tuple of str
            The keys that lead to the dict it is in, as ``weights`` takes them.
        prefix : str
            What its keys in that dict begin with.

        Raises
        ------
        CheckpointError
            If there is nothing of that name.
        """
        container, payload, names = [], self.payload, name.split(".")
        while names:
            entries = _entries(payload) or {}
            begun = (".".join(names[:count]) for count in range(1, len(names) + 1))
            key = next((each for each in begun if isinstance(entries.get(each), dict)), None)
            if key is None:
                break
            container.append(key)
            payload, names = entries[key], names[key.count(".") + 1 :]
        prefix = "".join(f"{each}." for each in names)
        held = _entries(payload if container else _unwrapped(payload)) or {}
        if not any(isinstance(key, str) and key.startswith(prefix) for key in held):
            parts = _holding_tensors(self.payload)
            raise CheckpointError(
                f"{self.path} has nothing below {shortened(name)}: it holds"
                f" {_description(self.payload)}{_naming(parts)}",
                hint="a part is what keys begin with, such as module.encoder_q",
            )
        return tuple(container), prefix

    def _under(self, container: tuple[str, ...]) -> object:
        """Follow keys exactly."""
        payload = self.payload
        for depth, key in enumerate(container):
            inner = (_entries(payload) or {}).get(key)
            if not isinstance(inner, dict):
                where = f" under {' > '.join(container[:depth])}" if depth else ""
                raise CheckpointError(
                    f"{self.path} has no dict {key!r}{where}, where its weights were published:"
                    f" it holds {_description(payload)}",
                    hint="the file is another one than the published one, or was packed anew",
                )
            payload = inner
        return payload


def joint_content(paths: Sequence[Path], read: Callable[[Path], Content]) -> Content:
    """Return what files hold together that a network's weights are split over; of one, its content.

    Raises
    ------
    CheckpointError
        If a file cannot be read, or two hold a tensor of one name.
    """
    if len(paths) == 1:
        return read(paths[0])
    tensors: dict[str, torch.Tensor] = {}
    for path in paths:
        shard = read(path).weights().tensors
        if twice := next((key for key in shard if key in tensors), None):
            raise CheckpointError(
                f"{path} holds {shortened(twice)}, which another of its {len(paths)} shards has",
                hint="the files are not those of one checkpoint",
            )
        tensors |= shard
    return Content(paths[0], tensors)


def _entries(value: object) -> dict[object, object] | None:
    """Return what a dict holds; None for anything else.

    A file may give its dicts attributes, one called ``items`` too: none is looked up.
    """
    return dict(dict.items(value)) if isinstance(value, dict) else None


def _unwrapped(payload: object) -> object:
    """Return the first innermost dict that known wrapper keys lead to, with tensors if any has."""
    waiting, innermost = [payload], []
    for _ in range(_WRAPPED_AT_MOST):
        if not waiting:
            break
        held = waiting.pop()
        if (entries := _entries(held)) is None:
            continue
        inner = [value for key in WRAPPERS if _entries(value := entries.get(key))]
        waiting += reversed(inner)
        if inner:
            continue
        if any(isinstance(each, torch.Tensor) for each in entries.values()):
            return held
        # Such as the settings of a network.
        innermost.append(held)
    return innermost[0] if innermost else {}


def _holding_tensors(payload: object) -> list[str]:
    """Return the first keys of a dict under which there are tensors by name."""
    if not isinstance(payload, dict):
        return []
    # A few bytes may name one large dict any number of times.
    entries = islice(dict.items(payload), _LOOKED_AT)
    return [
        key
        for key, value in entries
        if isinstance(key, str)
        and isinstance(value, dict)
        and any(isinstance(each, torch.Tensor) for each in islice(dict.values(value), _LOOKED_AT))
    ]


def _naming(parts: Sequence[str]) -> str:
    """Return how to name one of the parts of a file; nothing where there are none."""
    return f"; {first_names(parts)} could be named: file:PATH#{parts[0]}" if parts else ""


def _description(payload: object) -> str:
    entries = _entries(payload)
    if entries is not None:
        return f"a dict with the keys {first_names(map(str, entries)) or 'none'}"
    return f"a {type(payload).__name__}"


def _saved_versions(state: object) -> dict[str, dict[str, int]]:
    saved = _entries(getattr(state, "_metadata", None)) or {}
    return {
        key: {"version": version}
        for key, value in saved.items()
        if isinstance(key, str) and type(version := (_entries(value) or {}).get("version")) is int
    }
