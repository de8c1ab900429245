"""Hashes that need no second reading: those of files of weights, and of datasets.

A hash is kept with what its files looked like when they were read, and holds while they look so.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sqlalchemy import select

from catalog.files import file_sha256
from catalog.registry.database import Database
from catalog.registry.tables import CHECKPOINTS, DATASETS
from survey.errors import CheckpointError


class Hashes:
    """The hashes that a registry keeps.

    Parameters
    ----------
    database : Database
        The registry's.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def checkpoint_sha256(self, path: Path) -> str:
        """Return the sha256 (hex) of a file of weights, reading it only if it changed.

        Raises
        ------
        CheckpointError
            If the file cannot be read.
        """
        path = path.absolute()
        uri = f"file:{path}"
        before = _size_and_time(path)
        wanted = select(CHECKPOINTS.c.bytes, CHECKPOINTS.c.mtime_ns, CHECKPOINTS.c.sha256)
        with self._database.transaction() as connection:
            row = connection.execute(wanted.where(CHECKPOINTS.c.uri == uri)).one_or_none()
        if row is not None and (row.bytes, row.mtime_ns) == before:
            return str(row.sha256)
        sha256 = file_sha256(path)
        if _size_and_time(path) == before:
            values = {"path": str(path), "bytes": before[0], "mtime_ns": before[1]}
            self._database.upsert(CHECKPOINTS, {"uri": uri}, {**values, "sha256": sha256})
        return sha256

    def dataset_fingerprint(
        self,
        name: str,
        stat_signature: str,
        compute: Callable[[], str],
        images: int | None = None,
    ) -> str:
        """Return a dataset's fingerprint, computing it only if its files changed.

        Parameters
        ----------
        name : str
            The dataset's full name.
        stat_signature : str
            A hash over its files' names, sizes and times, which is quick to get.
        compute : callable
            Gives the fingerprint by reading every image.
        images : int, optional
            How many images it has.
        """
        wanted = select(DATASETS.c.stat_signature, DATASETS.c.fingerprint)
        with self._database.transaction() as connection:
            row = connection.execute(wanted.where(DATASETS.c.name == name)).one_or_none()
        if row is not None and row.stat_signature == stat_signature:
            return str(row.fingerprint)
        fingerprint = compute()
        values = {"stat_signature": stat_signature, "fingerprint": fingerprint, "images": images}
        self._database.upsert(DATASETS, {"name": name}, values)
        return fingerprint


def _size_and_time(path: Path) -> tuple[int, int]:
    try:
        stat = path.stat()
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be read: {error.strerror}", hint="check the path after `file:`"
        ) from error
    return stat.st_size, stat.st_mtime_ns
