"""What the driver of a home does, as it tells other processes; and that there is but one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from filelock import FileLock, Timeout

from catalog.home import Home
from catalog.store.writer_lock import is_locked, own_process
from jobs.scan.scan_progress import read_written, write_progress

#: Seconds between two tries to become the driver.
_TRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class DriverState:
    """What the driver of a home does."""

    #: Its process, as ``process 123 on host``.
    process: str
    #: It waits for something to do; it waits for what keeps it from that; it scans; or there is
    #: none.
    state: Literal["idle", "waiting", "running", "absent"]
    #: What it runs or would run, such as ``schedule weekly``.
    doing: str = ""
    #: Why it waits.
    reason: str = ""
    #: Since when, in seconds since 1970.
    since: float = 0.0


class DriverFile:
    """The file in which the driver tells what it does; it appears whole under its name."""

    def __init__(self, home: Home) -> None:
        self._path = home.driver_state
        self._last: DriverState | None = None
        self._written = False

    def write(self, state: Literal["idle", "waiting", "running"], doing: str, reason: str) -> bool:
        """Write what the driver does; return whether that is something new."""
        new = DriverState(f"process {own_process()}", state, doing, reason, time.time())
        is_new = not self._last or self._last != replace(new, since=self._last.since)
        if is_new:
            self._last, self._written = new, False
        # What it does goes on although nobody can read of it; it is tried again.
        with suppress(OSError):
            if not self._written:
                write_progress(self._path, self._last or new)
                self._written = True
        return is_new


def driver_state(home: Home) -> DriverState:
    """Return what the driver of a home does, in whatever process."""
    try:
        state = read_written(home.driver_state, DriverState)
    except OSError:
        state = None
    return state if state and is_locked(home.driver_lock) else DriverState("", "absent")


@contextmanager
def only_driver(home: Home, say: Callable[[str], None]) -> Iterator[None]:
    """Wait until no other process drives a home, and be its driver meanwhile."""
    lock = FileLock(home.driver_lock, timeout=0, thread_local=False)
    waits = False
    while not lock.is_locked:
        try:
            lock.acquire()
        except Timeout:
            if not waits:
                who = driver_state(home).process or "a process that just began"
                say(f"another service drives this home ({who}); this one goes on once it ends")
            waits = True
            time.sleep(_TRY_SECONDS)
    try:
        if waits:
            say(f"this service drives the home from {datetime.now(UTC):%H:%M:%S} UTC on")
        yield
    finally:
        lock.release()
