"""The process that runs what it took, its lease, and whether it still exists.

A process of the same kernel and the same space of process numbers can be looked up: it is gone as
soon as it has ended. Of any other process, such as one on another host, nothing is seen but its
lease, which it renews while it runs.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from catalog.registry.claims import ProcessIdentity
from catalog.registry.rows import Claimed
from survey.errors import StoreError

_PROC = Path("/proc")

#: States of a process that has ended but was not waited for.
_ENDED = ("Z", "X")


def this_process() -> ProcessIdentity:
    """Return the identity of this process."""
    pid = os.getpid()
    return ProcessIdentity(socket.gethostname(), pid, f"{_kernel()}/{birth(pid)}")


def is_gone(taken: Claimed, now: datetime) -> bool:
    """Return whether the process that took a due time or a submitted survey has ended."""
    kernel, _, born = (taken.process or "").partition("/")
    if taken.pid is not None and kernel and kernel == _kernel():
        return birth(taken.pid) != born
    return taken.lease_until is None or taken.lease_until < now


@contextmanager
def renewed_lease(renew: Callable[[], bool], seconds: float) -> Iterator[threading.Event]:
    """Renew a lease every few seconds, from a thread of its own.

    Yields an event that is set once ``renew`` returned False: the run has to end.
    """
    stop, over = threading.Event(), threading.Event()

    def beat() -> None:
        while not over.wait(seconds):
            # A registry that cannot be reached now is tried again at the next beat.
            with suppress(StoreError):
                if not renew():
                    stop.set()

    thread = threading.Thread(target=beat, name="lease", daemon=True)
    thread.start()
    try:
        yield stop
    finally:
        over.set()
        thread.join()


def birth(pid: int) -> str:
    """Return when a process started, in the kernel's ticks; empty if it has ended."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The name in brackets may hold anything, brackets too.
    state, *fields = text.rpartition(")")[2].split()
    return "" if state in _ENDED else fields[18]


def _kernel() -> str:
    """Return the boot and the space of process numbers; empty where unknown."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        # Containers share their host's kernel, and maybe its name, but not its process numbers.
        return f"{boot}:{(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""
