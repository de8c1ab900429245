"""Widths and costs of networks that no table lists, counted in a process of their own.

A network is code: one that crashes or hangs ends that process, and not the one that plans.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from catalog.models import find
from catalog.models.consent import admit, admitted
from catalog.models.cost_table import CountedCost, cost_of
from catalog.site_widths import counted_widths
from survey.settings import Pooling

#: Seconds that one network may take.
SECONDS = 120

# The folders that this process imports from, and not the current one unless it is among them.
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " from catalog.isolated_widths import main; main()"
)


@functools.cache
def isolated_widths(names: tuple[str, ...], pooling: Pooling) -> Mapping[str, Mapping[int, int]]:
    """Return how many sites of each network have how many channels.

    Parameters
    ----------
    names : tuple of str
        The architectures' full names. Code of the user's runs if this process may import it.
    pooling : {"mean", "pre", "sum", "flatten", "public_code"}
        How tensors become matrices.

    Returns
    -------
    mapping of str to mapping of int to int
        By name sites by channels, empty for a network that cannot be followed.
    """
    answers = _answers(names, pooling)
    return {name: dict(answers[name] or ()) for name in names}


@functools.cache
def isolated_costs(names: tuple[str, ...]) -> Mapping[str, CountedCost]:
    """Return what networks cost on an image of their own size, without those that fail on it.

    Parameters
    ----------
    names : tuple of str
        As for ``isolated_widths``.
    """
    answers = _answers(names, None)
    return {name: CountedCost(*answer) for name, answer in answers.items() if answer}


def _answers(names: Sequence[str], pooling: Pooling | None) -> dict[str, list[Any] | None]:
    """Return the widths of networks, or without a pooling their costs; None where it crashed."""
    answers: dict[str, list[Any] | None] = {}
    while left := [name for name in names if name not in answers]:
        # The first of those that are not answered ended the process.
        answers[left[0]] = None
        answers |= _answers_of_a_process(left, pooling)
    return answers


def _answers_of_a_process(names: Sequence[str], pooling: Pooling | None) -> dict[str, list[Any]]:
    """Return the answers up to a network that ends the process, if one does."""
    asked = {"names": list(names), "pooling": pooling, "admitted": sorted(admitted())}
    ended = subprocess.run(  # noqa: S603 - this interpreter, and code that was consented to
        [sys.executable, "-I", "-c", _START, json.dumps(sys.path)],
        input=json.dumps(asked).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return dict(map(json.loads, ended.stdout.splitlines()))


def main() -> None:
    """Answer the process that started this one, a line a network."""
    asked = json.load(sys.stdin)
    # What a network prints is no part of the answer.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        admit(asked["admitted"])
        for name in asked["names"]:
            signal.alarm(SECONDS)
            pooling = asked["pooling"]
            answer = [*counted_widths(name, pooling).items()] if pooling else _cost(name)
            print(json.dumps([name, answer]), file=answers, flush=True)


def _cost(name: str) -> list[object]:
    """Return the values of a network's cost, none of one that fails."""
    (architecture,) = find(name)
    try:
        cost = cost_of(architecture)
    except (Exception, SystemExit):  # noqa: BLE001  # a network is code, and may raise anything
        return []
    return [cost.size, cost.parameters, cost.gflops, cost.depth, cost.library]
