"""The undo file of a store: the parts of its file that a checkpoint writes in place.

DuckDB's checkpoint is durable once the header that it writes last is: until then the file is that
of the checkpoint before. But it writes anew, in place, blocks of metadata that hold parts of both,
with a checksum over each block, so that a loss of power within such a write leaves a file that
cannot be read. Copies of those blocks and of the headers are therefore kept beside the store while
it is written. Where the headers are still the old ones, so is everything else once the copies are
put back; where they are new, all that they speak of was durable before them.

Names no table; the sizes are those of DuckDB's storage format.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from filelock import FileLock, Timeout

from catalog.files import CHECKSUM_BYTES, InUse, checksum, sync_folder, write_all
from survey.errors import StoreError

if TYPE_CHECKING:
    import duckdb

#: The bytes before the first block: a header that never changes, then two that take turns.
_HEADERS = 12288

#: How long a recovery waits for processes that open the store; that takes milliseconds.
_OPENING_SECONDS = 3.0

# Stores that this process reads, by device and number.
_read = InUse()
os.register_at_fork(after_in_child=_read.forget)


def undo_path(store: Path) -> Path:
    """Return the undo file of a store; it exists while the store is written, or after a crash."""
    return store.with_name(store.name + ".undo")


def lock_path(store: Path) -> Path:
    """Return the file whose lock a process has while it writes a store, or opens it to read."""
    return store.with_name(store.name + ".lock")


def kept_from_writers(store: Path) -> AbstractContextManager[None]:
    """Return a context in which no writer of this process opens a store.

    Closing any descriptor of a file ends all locks that the process has on it: a writer that only
    tried would take DuckDB's lock from the readers of its own process.
    """
    return _read.using(_number_of(store))


def _number_of(store: Path) -> tuple[int, int]:
    status = store.stat()
    return status.st_dev, status.st_ino


class Undo:
    """The undo file of a store that is locked for writing; made by ``undoing``."""

    def __init__(self, store: Path, file: BinaryIO) -> None:
        self._store, self._path = store, undo_path(store)
        #: Open until the store is closed again: closing any descriptor of a file drops the locks
        #: that the process has on it, DuckDB's among them.
        self._file = file.fileno()

    def keep(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make the undo file durable, before a connection's only checkpoint.

        Parameters
        ----------
        connection : duckdb.DuckDBPyConnection
            Open on the store for writing; nothing was written yet.
        """
        ((size,),) = connection.execute(
            "SELECT block_size FROM pragma_database_size() WHERE database_name = current_database()"
        ).fetchall()
        rows = connection.execute("SELECT block_id FROM pragma_metadata_info()").fetchall()
        parts = [os.pread(self._file, _HEADERS, 0)]
        for (block,) in rows:
            start = _HEADERS + block * size
            parts += [_number(start), _number(size), os.pread(self._file, size, start)]
        content = b"".join(parts)
        unfinished = self._path.with_name(self._path.name + ".new")
        with _explained(self._store):
            with unfinished.open("wb", buffering=0) as file:
                write_all(file.fileno(), memoryview(checksum(content) + content))
                os.fsync(file.fileno())
            unfinished.replace(self._path)
            sync_folder(self._store.parent)

    def put_back(self) -> None:
        """Put back what an interrupted checkpoint may have torn, and remove the undo file."""
        if not self._path.exists():
            return
        with _explained(self._store):
            content = memoryview(self._path.read_bytes())
            stated, content = content[:CHECKSUM_BYTES], content[CHECKSUM_BYTES:]
            # A loss of power may bring back an undo file that was removed: its headers are older.
            unchanged = os.pread(self._file, _HEADERS, 0) == content[:_HEADERS]
            if unchanged and stated == checksum(content):
                content = content[_HEADERS:]
                while content:
                    start, size = (int.from_bytes(content[at : at + 8], "little") for at in (0, 8))
                    os.pwrite(self._file, content[16 : 16 + size], start)
                    content = content[16 + size :]
                os.fsync(self._file)
            self._path.unlink(missing_ok=True)


def recover(store: Path) -> bool:
    """Put back what a loss of power left half-written in a store; return whether nobody had it.

    Raises
    ------
    StoreError
        If the store cannot be written.
    """
    with undoing(store, _OPENING_SECONDS) as undo:
        return undo is not None


@contextmanager
def undoing(store: Path, seconds: float = 0.0) -> Iterator[Undo | None]:
    """Lock a store for writing, and put back what is torn before and after; None if it is locked.

    Parameters
    ----------
    store : Path
        The store's file.
    seconds : float
        How long to wait for the lock.

    Raises
    ------
    StoreError
        If the store cannot be written.
    """
    lock = FileLock(lock_path(store), timeout=seconds)
    try:
        with _explained(store):
            lock.acquire()
    except Timeout:
        yield None
        return
    try:
        with _explained(store):
            # Readers open a store where no writer has this lock: none can come now.
            if _number_of(store) in _read:
                yield None
                return
            file = store.open("r+b", buffering=0)
        with file:
            undo = Undo(store, file)
            undo.put_back()
            try:
                yield undo
            finally:
                undo.put_back()
    finally:
        lock.release()


@contextmanager
def _explained(store: Path) -> Iterator[None]:
    try:
        yield
    except Timeout:
        raise
    # An undo file that no checkpoint wrote may name places beyond any file.
    except (OSError, OverflowError) as error:
        raise StoreError(
            f"{store} cannot be written: {error}",
            hint="free some disk space, or check the directory's permissions",
        ) from error


def _number(value: int) -> bytes:
    return value.to_bytes(8, "little")
