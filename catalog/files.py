"""Files: paths with ``~``, hashes, what shows a change, and renames that outlast a power cut."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.bounds import open_file
from survey.errors import CheckpointError, StoreError
from survey.text import first_line

if TYPE_CHECKING:
    import pyarrow as pa

#: Length of a ``checksum``.
CHECKSUM_BYTES = 4


class InUse:
    """What this process uses, such as files that it reads, by how many users each has."""

    def __init__(self) -> None:
        self._users: Counter[Hashable] = Counter()
        self._counting = threading.Lock()

    def __contains__(self, thing: Hashable) -> bool:
        return thing in self._users

    @contextmanager
    def using(self, thing: Hashable) -> Iterator[None]:
        """Count one more user meanwhile."""
        with self._counting:
            self._users[thing] += 1
        try:
            yield
        finally:
            with self._counting:
                self._users[thing] -= 1
                if self._users[thing] <= 0:
                    del self._users[thing]

    def forget(self) -> None:
        """Count nothing: a forked process has none of the users."""
        self._users.clear()


def at_home(path: str) -> Path:
    """Return a path with its ``~`` replaced, where there is such a home."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def file_sha256(path: Path) -> str:
    """Return the sha256 (hex) of a file's bytes, read in pieces.

    Raises
    ------
    CheckpointError
        If it cannot be read, or is a pipe, a device, a socket or a folder.
    """
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as problem:
        raise CheckpointError(
            f"checkpoint file {path} cannot be read: {problem.strerror}",
            hint="check the path after `file:` and its permissions",
        ) from problem


def file_identity(path: Path) -> tuple[int, int, int]:
    """Return what an unchanged file keeps: its bytes, its last change in nanoseconds, its inode.

    -1 each where it is not there. Whoever sets the time of a modification back still changes the
    time at which that was done, and another file in its place has another inode.
    """
    try:
        status = path.stat()
    # A name with a null byte is a ValueError.
    except (OSError, ValueError):
        return -1, -1, -1
    return status.st_size, max(status.st_mtime_ns, status.st_ctime_ns), status.st_ino


def change_mark(file: Path | int) -> int:
    """Return a hash of a file's length and of the time it was last modified; -1 without a file.

    What leaves the content as it is, such as another mode or link, leaves it too. An open file is
    given by its descriptor.
    """
    try:
        status = os.stat(file)  # noqa: PTH116 - of a descriptor too
    # A name with a null byte is a ValueError.
    except (OSError, ValueError):
        return -1
    return hash((status.st_size, status.st_mtime_ns))


def stat_signature_of(*facts: object, files: Iterable[Path] = ()) -> str:
    """Return a sha256 (hex) over facts, and over files' names, sizes, changes and inodes.

    Parameters
    ----------
    *facts : object
        What else determines the content; only their ``repr`` counts.
    files : iterable of Path
        The files that hold it.
    """
    digest = hashlib.sha256(repr(facts).encode())
    for file in files:
        digest.update(repr((str(file), *file_identity(file))).encode())
    return digest.hexdigest()


def keep_in_cache(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file that others may read at any time; where that cannot be, leave it out.

    Parameters
    ----------
    path : pathlib.Path
        Where the file belongs; its folder is made.
    write : callable
        Called with the path of a temporary file, to write it.
    """
    # A cache that cannot be written makes the next call slow, and nothing else.
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path, f".{os.getpid()}.partial") as partial:
            write(partial)


@contextmanager
def whole_file(path: Path, ending: str = ".partial", *, lasting: bool = False) -> Iterator[Path]:
    """Yield a path to write a file to; the file takes its name at the end, or goes after an error.

    Parameters
    ----------
    path : pathlib.Path
        The file's name.
    ending : str
        What the name ends in until then: with the process, where several may write it at once.
    lasting : bool
        Whether it outlasts a loss of power once it is written.
    """
    partial = path.with_name(f"{path.name}{ending}")
    try:
        yield partial
        if lasting:
            with partial.open("rb") as file:
                os.fsync(file.fileno())
        partial.replace(path)
        if lasting:
            sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def appearing(path: Path, logs: Sequence[str]) -> Iterator[Path]:
    """Yield a temporary path; on success rename it atomically to ``path``.

    Parameters
    ----------
    path : Path
        Where the database appears. One process at a time may make it.
    logs : sequence of str
        Suffixes of the files that the database's library may leave beside it.
    """
    fresh = path.with_name(path.name + ".new")
    _remove(fresh, logs)
    try:
        yield fresh
        # Left by the process that an earlier database of this name was taken from, or a damaged
        # one's: the library would read them into the new one.
        for ending in logs:
            path.with_name(path.name + ending).unlink(missing_ok=True)
        fresh.replace(path)
        sync_folder(path.parent)
    finally:
        _remove(fresh, logs)


def _remove(path: Path, logs: Sequence[str]) -> None:
    for ending in ("", *logs):
        path.with_name(path.name + ending).unlink(missing_ok=True)


@contextmanager
def replacing_damaged(
    path: Path, logs: Sequence[str], failure: type[Exception]
) -> Iterator[tuple[Path, Path | None]]:
    """Set a damaged database aside; on success, what was made at a temporary path takes its place.

    Parameters
    ----------
    path : Path
        The damaged database, or where one is missing.
    logs : sequence of str
        Suffixes of the files that the database's library keeps beside it.
    failure : type
        The library's error.

    Yields
    ------
    Path, Path or None
        The temporary path, and the second name of the damaged database; None where it is missing.

    Raises
    ------
    StoreError
        If the new one cannot be made; then the damaged one is still in its place.
    """
    aside = set_aside(path, logs)
    try:
        with appearing(path, logs) as fresh:
            yield fresh, aside
    except (failure, OSError) as error:
        raise StoreError(
            f"{path} cannot be repaired: {first_line(error)}",
            hint="free some disk space and run the same command again; nothing is lost by that",
        ) from error


def set_aside(path: Path, logs: Sequence[str] = ()) -> Path | None:
    """Give a damaged file, and what its library keeps beside it, a second name with the time.

    Under that name it is never written again; whatever takes the place of its first name is
    another file.

    Parameters
    ----------
    path : Path
        The file; None is returned where there is none.
    logs : sequence of str
        Suffixes of the files beside it.

    Returns
    -------
    Path or None
        Its second name.
    """
    if not path.exists():
        return None
    moment = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    aside = path.with_name(f"{path.name}.damaged-{moment}")
    for ending in ("", *logs):
        with suppress(FileNotFoundError):
            _second_name(path.with_name(path.name + ending), aside.with_name(aside.name + ending))
    sync_folder(path.parent)
    return aside


def _second_name(path: Path, other: Path) -> None:
    try:
        other.hardlink_to(path)
    except FileNotFoundError:
        raise
    except OSError:
        # A file system without links.
        shutil.copy2(path, other)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, content: memoryview) -> None:
    """Write all of some bytes to an open file."""
    # One call may write less than it was given, such as on a disk that is nearly full.
    while content:
        content = content[os.write(descriptor, content) :]


def checksum(content: bytes | memoryview | pa.Buffer) -> bytes:
    """Return the CRC-32 of some bytes."""
    return zlib.crc32(content).to_bytes(CHECKSUM_BYTES, "little")
