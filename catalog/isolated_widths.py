"""Widths of networks that no table lists, counted in a process of their own.

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

from catalog.models.consent import admit, admitted
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
    widths: dict[str, Mapping[int, int]] = {}
    while left := [name for name in names if name not in widths]:
        # The first of those that are not answered ended the process.
        widths |= {left[0]: {}} | _answers(left, pooling)
    return widths


def _answers(names: Sequence[str], pooling: Pooling) -> dict[str, Mapping[int, int]]:
    """Return the widths of networks up to one that ends the process, if one does."""
    asked = {"names": list(names), "pooling": pooling, "admitted": sorted(admitted())}
    ended = subprocess.run(  # noqa: S603 - this interpreter, and code that was consented to
        [sys.executable, "-I", "-c", _START, json.dumps(sys.path)],
        input=json.dumps(asked).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    answers = map(json.loads, ended.stdout.splitlines())
    return {name: dict(widths) for name, widths in answers}


def main() -> None:
    """Answer the process that started this one, a line a network."""
    asked = json.load(sys.stdin)
    # What a network prints is no part of the answer.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        admit(asked["admitted"])
        for name in asked["names"]:
            signal.alarm(SECONDS)
            widths = counted_widths(name, asked["pooling"])
            print(json.dumps([name, list(widths.items())]), file=answers, flush=True)
