"""A writer that is killed again and again; run as a module by the tests of the spool.

The process forks a child that writes and says what was acknowledged, and kills it with -9: after a
random time, or at a named moment. It opens no store itself, so that forking is safe.
"""

from __future__ import annotations

import dataclasses
import os
import pkgutil
import random
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from catalog.home import Home
from catalog.store.records import BatchRecord
from catalog.store.writer import Writer
from tests.catalog.records import batch, run

#: Moments to die at: what is replaced by dying, before or after it does its work.
MOMENTS = {
    "before-fsync": ("catalog.store.segments.os.fsync", False),
    "before-rename": ("pathlib.Path.replace", False),
    "after-rename": ("catalog.store.segments.sync_folder", False),
    "before-transaction": ("catalog.store.writer.stage", True),
    "in-transaction": ("catalog.store.writer.store_staged", True),
    "after-commit": ("catalog.store.writer._leave_spool", False),
    "after-removal": ("catalog.store.writer._leave_spool", True),
}


@dataclass(frozen=True)
class Feed:
    """What is written in one call: some batches of some sites each."""

    batches: int
    sites: int

    def records(self, first: int, attempt: int, affinity: float) -> Iterator[BatchRecord]:
        """Yield the batches of one call."""
        scores = batch(0, affinity, self.sites)
        for number in range(first, first + self.batches):
            one = dataclasses.replace(scores, batch=number)
            yield BatchRecord("r1", attempt, one, 512 * (number + 1))


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


def write_until_killed(home: Home, first: int, attempt: int, feed: Feed) -> None:
    """Write groups of batches from the first on, each also as a replay, merging now and then."""
    with Writer.open(home) as writer:
        for start in range(first, 1_000_000, feed.batches):
            stop = start + feed.batches
            whole = run(attempt=attempt, batches=stop)
            writer.write([whole], list(feed.records(start, attempt, attempt / 1000)))
            os.write(1, f"{stop}\n".encode())
            if start // feed.batches % 3 == 0:
                writer.write([whole], list(feed.records(start, attempt, 0.9)))
                writer.merge()


def one_life(home: Home, first: int, attempt: int, moment: str | None, feed: Feed) -> int:
    """Fork a writer, have it killed, and return the next batch to write."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 1)
        if moment is None:
            write_until_killed(home, first, attempt, feed)
        else:
            with dying(*MOMENTS[moment]):
                write_until_killed(home, first, attempt, feed)
        os._exit(3)
    os.close(writing)
    if moment is None:
        time.sleep(random.Random(attempt).uniform(0.05, 0.5))
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise SystemExit(f"the writer was not killed but ended with {status} at {moment}")
    with os.fdopen(reading) as pipe:
        printed = [int(line) for line in pipe]
    return printed[-1] if printed else first


def main(folder: str, lives: int, feed: Feed) -> None:
    """Kill a writer at every moment and ``lives`` times at random; say the next batch."""
    home, following = Home(Path(folder)), 0
    for attempt, moment in enumerate([*MOMENTS, *[None] * lives], start=1):
        following = one_life(home, following, attempt, moment, feed)
    sys.stdout.write(f"{following}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Feed(int(sys.argv[3]), int(sys.argv[4])))
