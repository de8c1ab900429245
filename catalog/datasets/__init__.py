"""Datasets by name: those of ``catalog.datasets.kinds``, and those that installed packages bring.

A package announces a ``DatasetKind`` by an entry point of the group ``model_zoo_survey.datasets``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catalog.datasets.base import ORDER_SEED, Files, ImageDataset, Sample
from catalog.datasets.kind import DatasetInfo, DatasetKind, DatasetRequest
from catalog.datasets.kinds import KINDS
from catalog.datasets.subset import DatasetSubset, order_seed_of, selected_name, split_name
from catalog.models.base import RemoteFile
from survey.errors import DatasetError, UnknownName
from survey.extensions import Extensions, load_extensions

__all__ = [
    "DATASETS",
    "DATASET_NAMES",
    "ORDER_SEED",
    "DatasetInfo",
    "DatasetKind",
    "DatasetRequest",
    "Files",
    "ImageDataset",
    "Sample",
    "installed_kinds",
    "needed_files",
    "open_dataset",
    "order_seed_of",
    "path_of",
    "selected_name",
]

if TYPE_CHECKING:
    #: Every row of every kind, those of installed packages last.
    DATASETS: tuple[DatasetInfo, ...]
    #: Every way to name a dataset.
    DATASET_NAMES: tuple[str, ...]


def __getattr__(name: str) -> Any:
    # On first use: importing this package loads no extension.
    if name == "DATASETS":
        return tuple(info for kind in _kinds() for info in kind.names)
    if name == "DATASET_NAMES":
        return tuple(info.syntax for kind in _kinds() for info in kind.names)
    raise AttributeError(name)


def open_dataset(
    name: str, base_dir: Path, store: Files | None = None, data_dir: Path | None = None
) -> ImageDataset:
    """Return a dataset by name, without decoding any image.

    Parameters
    ----------
    name : str
        One of ``DATASET_NAMES``, with a selection behind it where only some images are meant:
        ``NAME[:1000]`` or ``NAME[:1000 stratified]``; or another order of them:
        ``NAME[order 3]``, ``NAME[:1000 order 3]``.
    base_dir : Path
        Where a relative path, as in ``folder:PATH``, starts from.
    store : Files, optional
        Where downloaded datasets come from; see ``needed_files``.
    data_dir : Path, optional
        The folder of datasets that users obtain themselves, such as ``imagenet``.

    Raises
    ------
    UnknownName
        If no dataset is named so.
    DatasetError
        If the files, the number of images or the selection cannot be used.
    """
    whole, selection = split_name(name)
    kind, info = _declared(whole)
    dataset = kind.open(DatasetRequest(whole, info, base_dir, store, data_dir))
    return DatasetSubset(dataset, selection) if selection and str(selection) else dataset


def needed_files(name: str) -> tuple[RemoteFile, ...]:
    """Return the files that a dataset is downloaded in; none where nothing is downloaded.

    Parameters
    ----------
    name : str
        As for ``open_dataset``.

    Raises
    ------
    UnknownName, DatasetError
        If no dataset is named so, or its selection cannot be used.
    """
    whole, _ = split_name(name)
    return _declared(whole)[1].files


def path_of(name: str, base_dir: Path) -> Path | None:
    """Return the file or folder that a dataset's name holds; None where it holds none.

    Raises
    ------
    UnknownName, DatasetError
        As ``needed_files``.
    """
    whole, _ = split_name(name)
    _, info = _declared(whole)
    # What an installed kind calls its detail is not known: it may be a path.
    if not info.subset.isupper() or info.subset in ("IMAGES", "SHA256"):
        return None
    return DatasetRequest(whole, info, base_dir).path


def _declared(name: str) -> tuple[DatasetKind, DatasetInfo]:
    """Return the kind of a dataset without a selection, and the row that its name fits."""
    for kind in _kinds():
        for info in kind.names:
            if info.names(name):
                return kind, info
    unknown = UnknownName("dataset", name, __getattr__("DATASET_NAMES"))
    prefix, colon, _ = name.partition(":")
    if "/" in name and not colon:
        unknown.hint = f"a folder of images is written folder:{name}"
    broken = installed_kinds().broken
    if broken and not any(prefix in kind.prefixes for kind in _kinds()):
        unknown.hint = f"{unknown.hint}; {'; '.join(map(str, broken))}"
    raise unknown


def _kinds() -> Iterator[DatasetKind]:
    # Packages are loaded only once none of ours fits.
    yield from KINDS
    yield from installed_kinds().loaded


@functools.cache
def installed_kinds() -> Extensions[DatasetKind]:
    """Return the dataset kinds of installed packages, and those that cannot be used."""
    taken = set(chain.from_iterable(kind.prefixes for kind in KINDS))

    def accept(brought: object) -> DatasetKind:
        if not isinstance(brought, DatasetKind):
            raise DatasetError(f"it is a {type(brought).__name__}, must be a DatasetKind")
        if clashing := taken & brought.prefixes:
            raise DatasetError(f"another kind has the name {', '.join(sorted(clashing))}")
        taken.update(brought.prefixes)
        return brought

    return load_extensions("dataset kind", accept)
