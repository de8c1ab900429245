"""Hashes that need no second reading: those of files of weights, and of datasets.

A hash is kept with what its files looked like when they were read, and holds while they look so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Column, select

from catalog.files import file_sha256
from catalog.registry.database import Database
from catalog.registry.tables import CHECKPOINTS, DATASETS
from survey.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class Hashes:
    """The hashes that a registry keeps."""

    #: The registry's.
    database: Database

    def checkpoint_sha256(self, path: Path) -> str:
        """Return the sha256 (hex) of a file of weights, reading it only if it changed.

        Raises
        ------
        CheckpointError
            If the file cannot be read.
        """
        path = path.absolute()
        key, seen = {"uri": f"file:{path}"}, _size_and_time(path)
        sha256 = self._kept(CHECKPOINTS.c.sha256, key | seen)
        if sha256 is None:
            sha256 = file_sha256(path)
            if _size_and_time(path) == seen:
                values = {**seen, "path": str(path), "sha256": sha256}
                self.database.upsert(CHECKPOINTS, key, values)
        return sha256

    def dataset_fingerprint(
        self,
        name: str,
        stat_signature: str,
        compute: Callable[[], str],
        images: int,
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
        images : int
            How many images it has.
        """
        key, seen = {"name": name}, {"stat_signature": stat_signature}
        fingerprint = self._kept(DATASETS.c.fingerprint, key | seen)
        if fingerprint is None:
            fingerprint = compute()
            values = {**seen, "fingerprint": fingerprint, "images": images}
            self.database.upsert(DATASETS, key, values)
        return fingerprint

    def _kept(self, column: Column[Any], values: dict[str, Any]) -> str | None:
        """Return a hash from the row with these values; None if its files changed since."""
        with self.database.transaction() as connection:
            return connection.scalar(select(column).filter_by(**values))


def _size_and_time(path: Path) -> dict[str, Any]:
    try:
        stat = path.stat()
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be read: {error.strerror}", hint="check the path after `file:`"
        ) from error
    return {"bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}
