"""Datasets by name. A new kind is one module here and one branch in ``open_dataset``."""

from __future__ import annotations

from pathlib import Path

from catalog.datasets.base import ORDER_SEED, ImageDataset, Sample
from catalog.files import at_home
from survey.errors import DatasetError, UnknownName

__all__ = ["DATASET_NAMES", "ORDER_SEED", "ImageDataset", "Sample", "open_dataset"]

#: Every way to name a dataset.
DATASET_NAMES = (
    "digits",
    "digits:heldout",
    "digits:train",
    "folder:PATH",
    "random",
    "random:IMAGES",
)

_DIGITS_SUBSETS = {"": "all", "heldout": "heldout", "train": "train"}


def open_dataset(name: str, base_dir: Path) -> ImageDataset:
    """Return a dataset by name, without decoding any image.

    Parameters
    ----------
    name : str
        One of ``DATASET_NAMES``.
    base_dir : Path
        Where a relative path in ``folder:PATH`` starts from.

    Raises
    ------
    UnknownName
        If no dataset is named so.
    DatasetError
        If the folder or the number of images cannot be used.
    """
    kind, separator, detail = name.partition(":")
    if kind == "folder" and detail:
        return _open_folder(name, base_dir / at_home(detail))
    if kind == "random" and (detail or not separator):
        return _open_random(name, detail)
    if kind == "digits" and detail in _DIGITS_SUBSETS and (detail or not separator):
        return _open_digits(detail)
    raise UnknownName("dataset", name, DATASET_NAMES)


# torch and Pillow are imported with the dataset that needs them, so that naming one stays light.


def _open_folder(name: str, root: Path) -> ImageDataset:
    from catalog.datasets.folder import FolderDataset

    return FolderDataset(name, root)


def _open_random(name: str, images: str) -> ImageDataset:
    from catalog.datasets.random import DEFAULT_IMAGES, RandomDataset

    if not images:
        return RandomDataset(name, DEFAULT_IMAGES)
    if not (
        images.isascii() and images.isdigit() and len(images) <= 20 and 1 <= int(images) < 2**32
    ):
        raise DatasetError(
            f"{name!r} asks for {images!r} images, must be a whole number of at least 1",
            hint="write random:2048",
        )
    return RandomDataset(name, int(images))


def _open_digits(subset: str) -> ImageDataset:
    from catalog.datasets.digits import DigitsDataset

    return DigitsDataset(_DIGITS_SUBSETS[subset])
