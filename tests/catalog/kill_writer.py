"""A writer that is killed again and again; run as a module by the tests of the spool.

The process forks a child that writes and says what was acknowledged, and kills it with -9: after a
random time, or at a named moment. It opens no store itself, so that forking is safe.
"""

from __future__ import annotations

import os
import pkgutil
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

from catalog.home import Home
from catalog.spool import Writer
from tests.catalog.records import batch, run

#: Moments to die at: what is replaced by dying, before or after it does its work.
MOMENTS = {
    "before-fsync": ("catalog.segments.os.fsync", False),
    "before-rename": ("pathlib.Path.replace", False),
    "after-rename": ("catalog.segments.sync_folder", False),
    "before-transaction": ("catalog.spool.stage", True),
    "in-transaction": ("catalog.spool.store_staged", True),
    "after-commit": ("catalog.spool._remove", False),
    "after-removal": ("catalog.spool._remove", True),
}


def dying(target: str, works_first: bool) -> Any:
    """Patch a function so that its fourth call kills the process."""
    original = pkgutil.resolve_name(target)
    calls = iter(range(1_000_000))

    def call(*args: Any, **kwargs: Any) -> Any:
        last = next(calls) == 3
        if last and not works_first:
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*args, **kwargs)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return mock.patch(target, call)


def write_until_killed(home: Home, first: int, attempt: int) -> None:
    """Write batches from the first on, each also as a replay, merging now and then."""
    with Writer.open(home) as writer:
        writer.write_run(run(attempt=attempt))
        for number in range(first, 1_000_000):
            writer.write_batch("r1", attempt, batch(number, attempt / 1000), 512 * (number + 1))
            os.write(1, f"{number}\n".encode())
            if number % 3 == 0:
                writer.write_batch("r1", attempt, batch(number, 0.9), 512 * (number + 1))
                writer.merge()


def one_life(home: Home, first: int, attempt: int, moment: str | None) -> int:
    """Fork a writer, have it killed, and return the next batch to write."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 1)
        if moment is None:
            write_until_killed(home, first, attempt)
        else:
            with dying(*MOMENTS[moment]):
                write_until_killed(home, first, attempt)
        os._exit(3)
    os.close(writing)
    if moment is None:
        time.sleep(random.Random(attempt).uniform(0.05, 0.5))
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise SystemExit(f"the writer was not killed but ended with {status} at {moment}")
    with os.fdopen(reading) as pipe:
        said = [int(line) for line in pipe]
    return said[-1] + 1 if said else first


def main(folder: str, lives: int) -> None:
    """Kill a writer at every moment and ``lives`` times at random; say the next batch."""
    home, following = Home(Path(folder)), 0
    for attempt, moment in enumerate([*MOMENTS, *[None] * lives], start=1):
        following = one_life(home, following, attempt, moment)
    sys.stdout.write(f"{following}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
