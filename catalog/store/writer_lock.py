"""Which process holds a home's writer lock."""

from __future__ import annotations

import fcntl
import os
import platform
from errno import ENOLCK, ENOSYS, EOPNOTSUPP
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from catalog.home import Home
from survey.errors import StoreError

#: What a system answers whose file system, or lock service, has no locks.
_NO_LOCKS = frozenset({ENOLCK, ENOSYS, EOPNOTSUPP})

#: A writer that left no note.
UNKNOWN = "unknown process"


def writing_process(home: Home) -> str | None:
    """Return which process is writing to a home, and since when; None if none is.

    The lock decides, on whatever machine its holder runs: a killed writer leaves its note behind,
    and by now another process may have its number.
    """
    return holder(home) if is_locked(home.writer_lock) else None


def own_process() -> str:
    """Return what this process writes about itself, as ``123 on host``."""
    return f"{os.getpid()} on {platform.node()}"


def is_writing(home: Home, process: str) -> bool:
    """Return whether a process, as it wrote about itself, may be the one that writes to a home."""
    writer = writing_process(home)
    return writer is not None and (writer == UNKNOWN or writer.startswith(f"process {process},"))


def is_locked(path: Path) -> bool:
    """Return whether a process, on whatever machine, holds the lock of a file."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        # No lock, no right to look at it, or a file system without locks.
        return False
    return False


def holder(home: Home) -> str:
    """Return what the last writer wrote about itself."""
    try:
        note = home.writer_note.read_text(encoding="utf-8", errors="replace")
    except OSError:
        note = ""
    return note.strip() or UNKNOWN


def require_locks(folder: Path) -> None:
    """Go on only if files in a folder can be locked: without locks nobody tells who writes.

    DuckDB calls it a lock that another process holds when the system has no locks to give.

    Raises
    ------
    StoreError
        If the system has none.
    """
    try:
        with _lockable(folder) as file:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as problem:
        if problem.errno in _NO_LOCKS:
            raise no_locks(folder, problem) from problem


def _lockable(folder: Path) -> IO[bytes]:
    """Return an open file of a home: letting go of it takes no lock away that matters."""
    try:
        return TemporaryFile(dir=folder)
    except PermissionError:
        # Whoever only reads the home makes none.
        return Home(folder).making_lock.open("rb")


def no_locks(folder: Path, problem: OSError) -> StoreError:
    """Return the error for a file system that has no locks to give."""
    return StoreError(
        f"files in {folder} cannot be locked: {problem.strerror}",
        hint="start its file server's lock service, or pass --home with a local directory",
    )


def is_lockless(problem: OSError) -> bool:
    """Return whether an error says that there are no locks."""
    return problem.errno in _NO_LOCKS
