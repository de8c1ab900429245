"""Datasets by name. A new kind is one module here, one entry in ``listing`` and one opener."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from catalog.datasets.base import ORDER_SEED, Files, ImageDataset, Sample
from catalog.datasets.listing import DATASETS, DatasetInfo
from catalog.datasets.subset import DatasetSubset, order_seed_of, selected_name, split_name
from catalog.files import at_home
from catalog.models.base import RemoteFile
from survey.errors import DatasetError, UnknownName

__all__ = [
    "DATASETS",
    "DATASET_NAMES",
    "ORDER_SEED",
    "DatasetInfo",
    "Files",
    "ImageDataset",
    "Sample",
    "needed_files",
    "open_dataset",
    "order_seed_of",
    "selected_name",
]

#: Every way to name a dataset.
DATASET_NAMES = tuple(info.syntax for info in DATASETS)

_DIGITS_SUBSETS = {"": "all", "heldout": "heldout", "train": "train"}
_PUBLISHED_SUBSETS = {"": "test", "train": "train"}

#: Characters a number of images may have.
_LONGEST_NUMBER = 20


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
    dataset = _kind(whole).open(_Place(base_dir, store, data_dir))
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
    return _kind(whole).files()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where datasets lie."""

    base_dir: Path
    store: Files | None
    data_dir: Path | None

    def path(self, written: str) -> Path:
        """Return a path as a user wrote it."""
        return self.base_dir / at_home(written)

    def downloads(self, name: str) -> Files:
        """Return where downloaded files come from."""
        if self.store is None:
            raise DatasetError(
                f"{name} is downloaded, and there is no place to keep files in",
                hint="name a home (--home), or a dataset on this machine: folder:PATH, digits",
            )
        return self.store


@dataclass(frozen=True, slots=True)
class _Kind:
    """How one dataset is opened, and what it is downloaded in."""

    open: Callable[[_Place], ImageDataset]
    files: Callable[[], tuple[RemoteFile, ...]] = tuple


def _kind(name: str) -> _Kind:
    """Return how a dataset without a selection is opened."""
    kind, separator, detail = name.partition(":")
    find = _KINDS.get(kind)
    found = find(name, detail) if find and bool(separator) == bool(detail) else None
    if found is None:
        raise UnknownName("dataset", name, DATASET_NAMES)
    return found


# numpy, torch and Pillow are imported with the dataset that needs them, so that naming one, and
# knowing what it is downloaded in, stays light.


def _folder(name: str, path: str) -> _Kind | None:
    def opened(place: _Place) -> ImageDataset:
        from catalog.datasets.kinds.folder import FolderDataset

        return FolderDataset(name, place.path(path))

    return _Kind(opened) if path else None


def _parquet(name: str, path: str) -> _Kind | None:
    def opened(place: _Place) -> ImageDataset:
        from catalog.datasets.kinds.parquet import open_parquet

        return open_parquet(name, place.path(path))

    return _Kind(opened) if path else None


def _imagenet(name: str, path: str) -> _Kind:
    def opened(place: _Place) -> ImageDataset:
        from catalog.datasets.kinds.imagenet import open_imagenet

        if path:
            return open_imagenet(name, place.path(path))
        if place.data_dir is None:
            raise DatasetError(
                f"{name} has no folder of its own without a home",
                hint="write imagenet:PATH, or name a home (--home) and look in datasets/imagenet",
            )
        return open_imagenet(name, place.data_dir / "imagenet")

    return _Kind(opened)


def _digits(_: str, subset: str) -> _Kind | None:
    def opened(_: _Place) -> ImageDataset:
        from catalog.datasets.kinds.digits import DigitsDataset

        return DigitsDataset(_DIGITS_SUBSETS[subset])

    return _Kind(opened) if subset in _DIGITS_SUBSETS else None


def _cifar(name: str, written: str) -> _Kind | None:
    kind = name.partition(":")[0]

    def opened(place: _Place) -> ImageDataset:
        from catalog.datasets.kinds.cifar import open_cifar

        return open_cifar(name, kind, _PUBLISHED_SUBSETS[written], place.downloads(name))

    def files() -> tuple[RemoteFile, ...]:
        from catalog.datasets.kinds.cifar import needed_files

        return needed_files(kind)

    return _Kind(opened, files) if written in _PUBLISHED_SUBSETS else None


def _fashion(name: str, written: str) -> _Kind | None:
    def opened(place: _Place) -> ImageDataset:
        from catalog.datasets.kinds.fashion_mnist import open_fashion

        return open_fashion(name, _PUBLISHED_SUBSETS[written], place.downloads(name))

    def files() -> tuple[RemoteFile, ...]:
        from catalog.datasets.kinds.fashion_mnist import needed_files

        return needed_files(_PUBLISHED_SUBSETS[written])

    return _Kind(opened, files) if written in _PUBLISHED_SUBSETS else None


def _random(name: str, images: str) -> _Kind:
    def opened(_: _Place) -> ImageDataset:
        from catalog.datasets.kinds.random import DEFAULT_IMAGES, RandomDataset

        return RandomDataset(name, _number(name, images) if images else DEFAULT_IMAGES)

    return _Kind(opened)


def _number(name: str, images: str) -> int:
    plain = images.isascii() and images.isdigit() and len(images) <= _LONGEST_NUMBER
    if not (plain and 1 <= int(images) < 2**32):
        raise DatasetError(
            f"{name!r} asks for {images!r} images, must be a whole number of at least 1",
            hint="write random:2048",
        )
    return int(images)


_KINDS: dict[str, Callable[[str, str], _Kind | None]] = {
    "cifar10": _cifar,
    "cifar100": _cifar,
    "digits": _digits,
    "fashion-mnist": _fashion,
    "folder": _folder,
    "imagenet": _imagenet,
    "parquet": _parquet,
    "random": _random,
}
