"""Room in the folder of cached pixels: which entries are in use, and which go for another one.

An entry's name has no dot; what is beside it has one. The least recently used entries go first.
"""

from __future__ import annotations

import shutil
import time
import uuid
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from catalog.files import InUse

#: What is left free on the disk, in bytes.
FREE_BYTES = 2**30

#: How long a part must lie untouched before it is swept away, though its lock is free: where locks
#: do not reach other machines, its builder may be alive.
STALE_SECONDS = 600.0

#: How the names of unfinished entries, and of those on their way out, end.
PART, TRASH = ".part", ".trash"

# Entries that this process reads from, whichever cache object they were opened through.
_reading = InUse()


class NotKept(Exception):
    """There is no room for an entry: its pixels are decoded without being kept."""


class EntryFolder:
    """The folder of entries, with the most bytes that they may take together."""

    def __init__(self, root: Path, limit_bytes: int) -> None:
        self.root = root
        self.limit_bytes = limit_bytes

    def make_room(self, more_bytes: int, unwritten_bytes: int) -> None:
        """Remove the least recently used entries until limit and disk have room.

        Parameters
        ----------
        more_bytes : int
            What is to come beside all that lies in the folder, unfinished entries included.
        unwritten_bytes : int
            What is to be written and not yet taken from the disk.

        Raises
        ------
        NotKept
            If that were not enough; then nothing is removed. Entries that this process reads from
            stay.
        """
        entries = {path: _bytes(path) for path in self.root.iterdir() if "." not in path.name}
        idle = {path: size for path, size in entries.items() if path not in _reading}
        used_bytes = sum(entries.values()) + sum(map(_bytes, self.root.glob(f"*{PART}")))
        over_limit = used_bytes + more_bytes - self.limit_bytes
        off_disk = unwritten_bytes + FREE_BYTES - shutil.disk_usage(self.root).free
        short_bytes = max(over_limit, off_disk)
        if short_bytes > sum(idle.values()):
            raise NotKept(
                f"limit and disk leave {short_bytes:,} bytes too few, entries in use aside"
            )
        for path in sorted(idle, key=_changed_ns):
            if short_bytes > 0 and removed(path):
                short_bytes -= idle[path]
        if short_bytes > 0:
            raise NotKept("other entries cannot be removed")

    def sweep(self, entry: Path) -> None:
        """Remove what killed processes left; the caller holds the lock of the entry."""
        for path in self.root.glob(f"*{TRASH}"):
            shutil.rmtree(path, ignore_errors=True)
        for path in self.root.glob(f"*{PART}"):
            newest_ns = max(map(_changed_ns, [path, *path.glob("*")]))
            if time.time() - newest_ns / 1e9 < STALE_SECONDS:
                continue
            owner = self.root / path.name.partition(".")[0]
            if owner == entry:
                shutil.rmtree(path, ignore_errors=True)
                continue
            with suppress(Timeout, OSError), FileLock(lock_of(owner), timeout=0):
                shutil.rmtree(path, ignore_errors=True)


def marked_as_read(entry: Path) -> AbstractContextManager[None]:
    """Return a context in which this process does not remove an entry."""
    return _reading.using(entry)


def lock_of(entry: Path) -> Path:
    """Return the lock of the one process that builds an entry."""
    return entry.with_name(f"{entry.name}.lock")


def removed(entry: Path) -> bool:
    """Remove an entry, all of it at once as others see it; return whether it was."""
    trash = entry.with_name(f"{entry.name}.{uuid.uuid4().hex}{TRASH}")
    try:
        entry.rename(trash)
    except OSError:
        return False
    shutil.rmtree(trash, ignore_errors=True)
    return True


def _bytes(folder: Path) -> int:
    """Return what the files of a folder take once they are written; 0 when it is gone."""
    try:
        return sum(path.stat().st_size for path in folder.iterdir())
    except OSError:
        return 0


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
