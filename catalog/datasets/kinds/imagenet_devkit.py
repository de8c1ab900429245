"""The development kit of ILSVRC 2012: which class each validation image of ImageNet shows.

Owns the kit's two files, ``meta.mat`` and the ground truth. ``scipy.io`` reads MATLAB's format as
plain arrays: it knows no pickles, and runs nothing that is in a file.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from catalog.datasets.images.decoding import DECODE_ERRORS
from catalog.datasets.images.tar import read_members
from catalog.datasets.label_map import imagenet_wnids
from survey.errors import DatasetError

#: The kit as it is downloaded (md5 fa75699e90414af021442c21a62c3abf), and as it unpacks.
ARCHIVE = "ILSVRC2012_devkit_t12.tar.gz"
FOLDER = "ILSVRC2012_devkit_t12"

_CLASSES = "data/meta.mat"
_TRUTH = "data/ILSVRC2012_validation_ground_truth.txt"

#: Neither file has more than a megabyte.
_LARGEST_FILE = 1 << 24


def find_devkit(root: Path) -> Path:
    """Return the kit in a folder, packed or unpacked.

    Raises
    ------
    DatasetError
        If there is none.
    """
    for candidate in (root / ARCHIVE, root / FOLDER):
        if candidate.exists():
            return candidate
    raise DatasetError(
        f"{root} lacks the development kit, which lists the images' classes",
        hint=f"put {ARCHIVE} beside the images (from https://image-net.org), or unpack it"
        f" there as {FOLDER}",
    )


def validation_wnids(devkit: Path, images: int, classes: int) -> tuple[str, ...]:
    """Return the wnid of every validation image, in the order of the images' numbers.

    Parameters
    ----------
    devkit : Path
        The kit, packed or unpacked.
    images, classes : int
        How many of them there must be, equally many images of every class.

    Raises
    ------
    DatasetError
        If the kit is incomplete or another one.
    """
    content = _content(devkit)
    wnids = _wnids(devkit, content[_CLASSES], classes)
    try:
        shown = tuple(wnids[int(line)] for line in content[_TRUTH].split())
    except (ValueError, KeyError) as problem:
        raise _refused(devkit, f"its ground truth is no list of classes: {problem}") from problem
    if len(shown) != images or set(Counter(shown).values()) != {images // classes}:
        raise _refused(
            devkit,
            f"its ground truth lists the classes of {len(shown):,} images,"
            f" must be {images:,}, {images // classes} of each class",
        )
    return shown


def files_of(devkit: Path) -> tuple[Path, ...]:
    """Return the files that hold the kit."""
    return (devkit / _CLASSES, devkit / _TRUTH) if devkit.is_dir() else (devkit,)


def _content(devkit: Path) -> dict[str, bytes]:
    names = (_CLASSES, _TRUTH)
    if not devkit.is_dir():
        wanted = {f"{FOLDER}/{name}": _LARGEST_FILE for name in names}
        # scipy may crash on a damaged file: none but what the publisher packed gets to it.
        content = read_members(devkit, wanted, whole=True)
        return {name: content[f"{FOLDER}/{name}"] for name in names}
    try:
        return {name: (devkit / name).read_bytes() for name in names}
    except OSError as problem:
        raise _refused(devkit, f"a file cannot be read: {problem}") from problem


def _wnids(devkit: Path, content: bytes, classes: int) -> dict[int, str]:
    """Return the wnids of the classes that are no parents of others, by their number."""
    from scipy.io import loadmat

    read: Callable[..., dict[str, Any]] = loadmat  # its stubs know paths alone
    try:
        matrix = read(io.BytesIO(content), variable_names=("synsets",), squeeze_me=True)
        synsets = matrix["synsets"]
        numbers, wnids = synsets["ILSVRC2012_ID"].tolist(), synsets["WNID"].tolist()
        leaves = [children == 0 for children in synsets["num_children"].tolist()]
        every = zip(numbers, wnids, leaves, strict=True)
        leaf_wnids = {int(number): str(wnid) for number, wnid, leaf in every if leaf}
    except (*DECODE_ERRORS, NotImplementedError) as problem:
        raise _refused(devkit, f"its meta.mat cannot be read: {problem}") from problem
    if len(set(leaf_wnids.values())) != classes or not set(leaf_wnids.values()) <= set(
        imagenet_wnids()
    ):
        raise _refused(
            devkit, f"its meta.mat names {len(leaf_wnids)} classes, not ImageNet's {classes}"
        )
    return leaf_wnids


def _refused(devkit: Path, why: str) -> DatasetError:
    return DatasetError(
        f"{devkit} is not the development kit of ILSVRC 2012: {why}",
        hint=f"get {ARCHIVE} again",
    )
