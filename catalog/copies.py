"""Copies of files that last, what they hold, and the copies kept of databases before migrations."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from catalog.bounds import open_file
from catalog.files import appearing, write_all
from survey.errors import StoreError

_PIECE_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class Contents:
    """What one file holds."""

    #: Its size.
    bytes: int
    #: The sha256 (hex) of it.
    sha256: str


def copy_file(source: BinaryIO, target: Path) -> Contents:
    """Copy an open file from its beginning to a new one that lasts; return what was copied."""
    digest, size = hashlib.sha256(), 0
    with target.open("xb", buffering=0) as file:
        while piece := source.read(_PIECE_BYTES):
            write_all(file.fileno(), memoryview(piece))
            digest.update(piece)
            size += len(piece)
        os.fsync(file.fileno())
    return Contents(size, digest.hexdigest())


def contents_of(path: Path) -> Contents:
    """Return what a file holds, which lasts from now on."""
    with open_file(path) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        os.fsync(file.fileno())
        return Contents(os.fstat(file.fileno()).st_size, digest)


@contextmanager
def kept_before_migration(database: Path, version: int | str) -> Iterator[Path]:
    """Yield a temporary path for a copy of a database that is to be migrated; it is kept then.

    Parameters
    ----------
    database : Path
        Its file in a home; the copy lies in the home's folder ``backups``.
    version : int or str
        The version of its schema.

    Raises
    ------
    StoreError
        If it cannot be copied: a migration does not begin then.
    """
    moment = f"{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
    folder = database.parent / "backups"
    try:
        folder.mkdir(exist_ok=True)
        name = f"{database.stem}-version-{version}-{moment}{database.suffix}"
        with appearing(folder / name, ()) as fresh:
            yield fresh
    except OSError as error:
        raise StoreError(
            f"{database} cannot be copied to {folder} before its migration:"
            f" {error.strerror or error}",
            hint="free some disk space and run the same command again; nothing was migrated",
        ) from error
