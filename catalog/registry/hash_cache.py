"""What needs no second reading: hashes of files of weights and of datasets, and what fits what.

A hash is kept with what its files looked like when they were read, and holds while they look so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from catalog.files import file_sha256, stat_signature_of
from catalog.registry.database import Database
from catalog.registry.tables import DATASETS


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
        name = _named(path)
        signature = stat_signature_of(files=(path.absolute(),))
        sha256 = self._kept(name, signature)
        if sha256 is None:
            sha256 = file_sha256(path)
            if stat_signature_of(files=(path.absolute(),)) == signature:
                self._keep(name, signature, sha256)
        return sha256

    def forget(self, path: Path) -> None:
        """Let a file of weights be read anew, whatever it looks like."""
        with self.database.transaction() as connection:
            connection.execute(DATASETS.delete().where(DATASETS.c.name == _named(path)))

    def misfit(self, pair: str, version: str, compute: Callable[[], str | None]) -> str | None:
        """Return why a file cannot be loaded into a network, computed once for each version.

        Parameters
        ----------
        pair : str
            The sha256 of the file and the name of the network.
        version : str
            The version of what defines the network.
        compute : callable
            Gives the reason; None where the file fits.
        """
        name = f"fit:{pair}"
        kept = self._kept(name, version)
        if kept is None:
            kept = compute() or ""
            self._keep(name, version, kept)
        return kept or None

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
            A hash over its files' names, sizes, changes and inodes, which is quick to get.
        compute : callable
            Gives the fingerprint by reading every image.
        images : int
            How many images it has.
        """
        fingerprint = self._kept(name, stat_signature)
        if fingerprint is None:
            fingerprint = compute()
            self._keep(name, stat_signature, fingerprint, images)
        return fingerprint

    def _kept(self, name: str, signature: str) -> str | None:
        """Return a hash that is kept; None if its files changed since."""
        kept = select(DATASETS.c.fingerprint).filter_by(name=name, stat_signature=signature)
        with self.database.transaction() as connection:
            return connection.scalar(kept)

    def _keep(self, name: str, signature: str, sha256: str, images: int | None = None) -> None:
        values = {"stat_signature": signature, "fingerprint": sha256, "images": images}
        self.database.upsert(DATASETS, {"name": name}, values)


def _named(path: Path) -> str:
    return f"file:{path.absolute()}"
