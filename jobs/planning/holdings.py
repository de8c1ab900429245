"""What is at hand for a plan: fetched files, datasets, and the hashes of their content."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.checkpoint_references import Checkpoint, joint_sha256
from catalog.datasets import ImageDataset, needed_files, open_dataset
from catalog.home import Home
from catalog.models.base import Architecture, RemoteFile
from survey import CheckpointError

if TYPE_CHECKING:
    from catalog.downloads import FileStore
    from catalog.registry.hash_cache import Hashes


@dataclass(frozen=True, slots=True)
class Holdings:
    """The files at hand, and the hashes of their content.

    Parameters
    ----------
    home : Home, optional
        The home that workers share, opened or not: some datasets lie below it.
    store : FileStore, optional
        Files fetched from elsewhere; without one there are none.
    hashes : Hashes, optional
        The hashes that the home's registry remembers; without them all content is read.
    """

    home: Home | None = None
    store: FileStore | None = None
    hashes: Hashes | None = None

    def find(self, file: RemoteFile) -> Path | None:
        """Return the path of a fetched file; None where it is not at hand."""
        return self.store.find(file) if self.store else None

    def open(self, name: str, base: Path) -> ImageDataset | None:
        """Return a dataset; None where some of its files are not at hand."""
        if not all(self.find(file) for file in needed_files(name)):
            return None
        folder = self.home.datasets if self.home else None
        return open_dataset(name, base, self.store, folder)

    def sha256(self, checkpoint: Checkpoint) -> str:
        """Return the sha256 of a checkpoint's bytes; of its path, where they cannot be read.

        Such a checkpoint fails alone, when it is loaded, and not the survey that names it.
        """
        if checkpoint.path is None:
            return checkpoint.sha256()
        try:
            if self.hashes is None:
                return checkpoint.sha256()
            hashes = [self.hashes.checkpoint_sha256(path) for path in checkpoint.files]
            return joint_sha256(hashes, checkpoint.part)
        except CheckpointError:
            names = ":".join(map(str, checkpoint.files))
            return hashlib.sha256(f"unreadable:{names}".encode()).hexdigest()

    def misfit(self, architecture: Architecture, checkpoint: Checkpoint, sha256: str) -> str | None:
        """Return why the weights that a user names do not fit a network; None where they do.

        It is asked of files alone: other weights come for their network.
        """
        if not checkpoint.of_user:
            return None
        # Brings torch, unless it is known already.
        from catalog.model_fit import definition_version, misfit

        compute = functools.partial(misfit, architecture, *checkpoint.files, part=checkpoint.part)
        version = definition_version(architecture)
        if self.hashes is None or version is None:
            return compute()
        return self.hashes.misfit(f"{sha256} {architecture.full_name}", version, compute)

    def fingerprint(self, dataset: ImageDataset) -> str:
        """Return the sha256 over a dataset's content and order."""
        if self.hashes is None:
            return dataset.fingerprint()
        return self.hashes.dataset_fingerprint(
            dataset.name, dataset.stat_signature(), dataset.fingerprint, len(dataset)
        )
