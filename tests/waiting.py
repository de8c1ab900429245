"""Waiting for a state, and time that does not depend on what else a machine does."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

#: How long a state is waited for: only what hangs takes as long.
PATIENCE_SECONDS = 600.0

Value = TypeVar("Value")


def until(condition: Callable[[], Value], pause: float = 0.02) -> Value:
    """Return what a condition gives once that holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, "what was waited for never came"
        time.sleep(pause)
    return value


def processor_seconds() -> float:
    """Return what this process has computed, and all that have ended below it."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def processor_seconds_of(pid: int) -> float:
    """Return what another process has computed, its children, and all that ended below it."""
    try:
        stated = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]
        below = sum(map(processor_seconds_of, children_of(pid)))
    except (FileNotFoundError, ProcessLookupError):
        # It ended meanwhile: who waited for it has its seconds.
        return 0.0
    ticks = sum(map(int, stated))
    return below + ticks / os.sysconf("SC_CLK_TCK")


def children_of(pid: int) -> list[int]:
    """Return the children that the first thread of a process has."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(child) for child in listed.split()]
