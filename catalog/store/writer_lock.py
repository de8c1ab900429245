"""Which process holds a home's writer lock."""

from __future__ import annotations

import fcntl
from pathlib import Path

from catalog.home import Home


def writing_process(home: Home) -> str | None:
    """Return which process is writing to a home, and since when; None if none is.

    The lock decides, on whatever machine its holder runs: a killed writer leaves its note behind,
    and by now another process may have its number.
    """
    return holder(home) if _is_locked(home.writer_lock) else None


def _is_locked(path: Path) -> bool:
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
        return home.writer_note.read_text(encoding="utf-8").strip() or "unknown process"
    except OSError:
        return "unknown process"
