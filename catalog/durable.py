"""Files that appear whole or not at all, and stay: what the stores and the downloads rely on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def appearing(path: Path, log: str) -> Iterator[Path]:
    """Give the place to make a database at, which then appears under its name whole.

    Parameters
    ----------
    path : Path
        Its name. One process at a time may make it.
    log : str
        How the name of the log ends that the database's library may leave beside it.
    """
    fresh = path.with_name(path.name + ".new")
    made = (fresh, fresh.with_name(fresh.name + log))
    _remove(made)
    try:
        yield fresh
        fresh.replace(path)
        sync_folder(path.parent)
    finally:
        _remove(made)


def _remove(paths: tuple[Path, ...]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
