"""A kind of dataset: the names it is written by, its files, and the function that opens it.

A declaration imports no torch, numpy or Pillow, so that naming and listing datasets stay quick;
``DatasetKind.open`` imports what it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from catalog.datasets.base import Files, ImageDataset
from catalog.files import at_home
from catalog.models.base import RemoteFile
from survey.errors import DatasetError


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetInfo:
    """One way to name a dataset."""

    #: How it is written: ``KIND``, ``KIND:SUBSET``, or ``KIND:PATH`` with a part in capitals, which
    #: stands for what the user fills in.
    syntax: str
    #: What it is, in a sentence.
    sentence: str
    #: Number of images; None where it depends on the files.
    images: int | None = None
    #: Number of classes, 0 where there are no labels; None where it depends on the files.
    classes: int | None = None
    #: Files that it is downloaded in; empty where nothing is.
    files: tuple[RemoteFile, ...] = ()
    #: Folder below the home's ``datasets`` that users put it into; None where there is none.
    home_folder: str | None = None
    #: Terms it is offered under, in its publisher's wording; None where there are none.
    licence: str | None = None
    #: Address of its publisher.
    source: str | None = None

    @property
    def prefix(self) -> str:
        """What stands before the colon."""
        return self.syntax.partition(":")[0]

    @property
    def subset(self) -> str:
        """What stands behind the colon; empty where nothing does."""
        return self.syntax.partition(":")[2]

    @property
    def download_bytes(self) -> int:
        """Bytes that are downloaded for it; 0 where nothing is."""
        return sum(file.bytes or 0 for file in self.files)

    def names(self, written: str) -> bool:
        """Return whether a name without a selection is written so."""
        prefix, _, detail = written.partition(":")
        if self.subset.isupper():
            return prefix == self.prefix and bool(detail)
        return written == self.syntax


@dataclass(frozen=True, slots=True)
class DatasetRequest:
    """A dataset to be opened: how it was named, and where its files may lie."""

    #: The name without a selection, such as ``folder:pictures``.
    name: str
    #: The row of its kind that the name fits.
    info: DatasetInfo
    #: Where a relative path starts from.
    base_dir: Path
    #: Where downloaded files come from; None without a home.
    store: Files | None = None
    #: The folder of datasets that users obtain themselves; None without a home.
    data_dir: Path | None = None

    @property
    def detail(self) -> str:
        """What the user wrote behind the colon."""
        return self.name.partition(":")[2]

    @property
    def path(self) -> Path:
        """What the user wrote behind the colon, as a path."""
        return self.base_dir / at_home(self.detail)

    def downloaded(self) -> tuple[Path, ...]:
        """Return the dataset's files, fetched where they are not here yet.

        Raises
        ------
        DatasetError
            If there is no place to keep files in.
        """
        if self.store is None:
            raise DatasetError(
                f"{self.name} is downloaded, and there is no place to keep files in",
                hint="name a home (--home), or a dataset on this machine: folder:PATH, digits",
            )
        return tuple(map(self.store.get, self.info.files))

    def home_folder(self) -> Path:
        """Return the folder of the home that users put the dataset into.

        Raises
        ------
        DatasetError
            If there is no home.
        """
        if self.data_dir is None or self.info.home_folder is None:
            folder = self.info.home_folder
            raise DatasetError(
                f"{self.name} has no folder of its own without a home",
                hint=f"write {self.name}:PATH, or name a home (--home) and look in"
                f" datasets/{folder}",
            )
        return self.data_dir / self.info.home_folder


@dataclass(frozen=True, slots=True)
class DatasetKind:
    """Datasets that are opened the same way, declared once."""

    #: Every way to name one of them; all of one prefix, such as ``digits``, are in one kind.
    names: tuple[DatasetInfo, ...]
    #: Returns the dataset asked for, without decoding any image.
    open: Callable[[DatasetRequest], ImageDataset]

    @property
    def prefixes(self) -> frozenset[str]:
        """What stands before the colon of its names."""
        return frozenset(info.prefix for info in self.names)
