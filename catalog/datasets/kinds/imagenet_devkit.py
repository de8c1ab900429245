"""The development kit of ILSVRC 2012: which class each validation image of ImageNet shows.

Owns the kit's two files, ``meta.mat`` and the ground truth. MATLAB's format is read apart, by
``catalog.datasets.kinds.matlab_classes``.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from catalog.bounds import open_file, read_at_most
from catalog.datasets.images.tar import read_members
from catalog.datasets.kinds import matlab_classes
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
        content = read_members(devkit, wanted, whole=True)
        return {name: content[f"{FOLDER}/{name}"] for name in names}
    try:
        return {name: _read(devkit / name) for name in names}
    except (OSError, ValueError) as problem:
        raise _refused(devkit, f"a file cannot be read: {problem}") from problem


def _read(path: Path) -> bytes:
    with open_file(path) as file:
        return read_at_most(file, _LARGEST_FILE, path.name)


def _wnids(devkit: Path, content: bytes, classes: int) -> dict[int, str]:
    """Return the wnids of the classes that are no parents of others, by their number."""
    rows = _listed(content)
    if rows is None:
        raise _refused(devkit, "its meta.mat cannot be read")
    leaf_wnids = {number: wnid for number, wnid, children in rows if not children}
    if len(set(leaf_wnids.values())) != classes or not set(leaf_wnids.values()) <= set(
        imagenet_wnids()
    ):
        raise _refused(
            devkit, f"its meta.mat names {len(leaf_wnids)} classes, not ImageNet's {classes}"
        )
    return leaf_wnids


# A worker opens its dataset anew for every model, and another process takes a second.
@functools.lru_cache(maxsize=1)
def _listed(content: bytes) -> list[tuple[int, str, int]] | None:
    """Return number, wnid and number of children of each class; None where they are not read."""
    # -P: what lies beside the script has names of the standard library's.
    command = [sys.executable, "-P", matlab_classes.__file__]
    try:
        ended = subprocess.run(command, input=content, capture_output=True, timeout=60, check=True)  # noqa: S603 - our own script
        rows: list[tuple[int, str, int]] = json.loads(ended.stdout)
    except (subprocess.SubprocessError, ValueError):
        return None
    return rows


def _refused(devkit: Path, why: str) -> DatasetError:
    return DatasetError(
        f"{devkit} is not the development kit of ILSVRC 2012: {why}",
        hint=f"get {ARCHIVE} again",
    )
