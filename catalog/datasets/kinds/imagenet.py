"""The 50,000 validation images of ImageNet (ILSVRC 2012), in any of the forms people keep them.

A folder of wnid subfolders; the official archive beside its development kit, read in place; or
the archive unpacked into one flat folder beside the kit. All three have the same names, order,
labels and fingerprint. The archive (md5 29b22e2961454d5413ddabcf34fc5622) needs an account at
https://image-net.org, so nothing is downloaded here. A part of the images is a ``folder:``.
"""

from __future__ import annotations

import functools
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath

from catalog.datasets.images.encoded import FilePictures, Opener, Picture, PictureDataset
from catalog.datasets.images.tar import Member, index_members, read_at
from catalog.datasets.kind import DatasetInfo, DatasetKind, DatasetRequest
from catalog.datasets.kinds.folder import FolderDataset
from catalog.datasets.kinds.imagenet_devkit import (
    ARCHIVE,
    FOLDER,
    files_of,
    find_devkit,
    validation_wnids,
)
from catalog.datasets.label_map import IMAGENET_CLASSES, imagenet_wnids
from catalog.files import change_mark, file_identity, stat_signature_of
from survey.errors import DatasetError

#: How many images there are.
IMAGES = 50_000

#: The archive of images.
TAR = "ILSVRC2012_img_val.tar"

#: Folders that may lie beside those of the classes: the kit, and what a file system makes itself.
_NO_CLASSES = (FOLDER, "lost+found")


def open_imagenet(request: DatasetRequest) -> PictureDataset:
    """Return the validation images in a folder, in whichever form they are there.

    The folder, the home's where the name has none, holds wnid subfolders; or the archive and the
    kit; or all images and the kit. Subfolders and images may also lie in its subfolder ``val``.

    Raises
    ------
    DatasetError
        If there is nothing of the kind, or not all of it.
    """
    name, root = request.name, request.path if request.detail else request.home_folder()
    if not root.is_dir():
        happened = "is not a folder" if root.exists() else "does not exist"
        raise DatasetError(f"{root} {happened}", hint=_what_to_put(root))
    archive, folders = (root / TAR).exists(), (root, root / "val")
    # Without its kit an archive is of no use, and may be where class folders came from.
    if not (archive and any((root / kit).exists() for kit in (ARCHIVE, FOLDER))):
        for folder in folders:
            if any((folder / wnid).is_dir() for wnid in imagenet_wnids()):
                return _class_folders(name, folder)
    if archive:
        return TarDataset(name, root, find_devkit(root))
    for folder in folders:
        if next(folder.glob("ILSVRC2012_val_*"), None):
            return FlatDataset(name, folder, find_devkit(root))
    raise DatasetError(f"{root} holds no validation images of ImageNet", hint=_what_to_put(root))


def _class_folders(name: str, root: Path) -> FolderDataset:
    """Return the images in one subfolder a class, named by wnid."""
    dataset = FolderDataset(name, root, apart=_NO_CLASSES)
    strange = sorted(set(dataset.class_names) - set(imagenet_wnids()))
    if strange:
        raise DatasetError(
            f"{root} holds folders that are no classes of ImageNet: {', '.join(strange[:3])}",
            hint=f"take them away, or write folder:{root} for pictures of other classes",
        )
    images = Counter(dataset.labels())
    each = IMAGES // IMAGENET_CLASSES
    if len(images) != IMAGENET_CLASSES or set(images.values()) != {each}:
        raise DatasetError(
            f"{root} holds {len(dataset):,} images of {len(images):,} classes, the validation"
            f" images are {IMAGES:,}, {each} of each of {IMAGENET_CLASSES:,} classes",
            hint=f"write folder:{root} to measure a part of them, or other images",
        )
    return dataset


class DevkitPictures(PictureDataset):
    """The images, with the classes that the development kit lists.

    Parameters
    ----------
    name : str
        The name it was asked for by.
    root : Path
        The folder that the images or their archive lie in.
    devkit : Path
        The development kit.

    Raises
    ------
    DatasetError
        If an image is missing, the archive is cut off, or the kit cannot be used.
    """

    def __init__(self, name: str, root: Path, devkit: Path) -> None:
        super().__init__(name, root, *_numbered(devkit))
        self._devkit = devkit


class FlatDataset(DevkitPictures, FilePictures):
    """The images unpacked into one folder."""

    def __init__(self, name: str, root: Path, devkit: Path) -> None:
        super().__init__(name, root, devkit)
        there = {path.name for path in root.iterdir()}
        missing = sorted(set(_file_names()) - there)
        if missing:
            raise DatasetError(
                f"{root} lacks {len(missing):,} of the {IMAGES:,} validation images,"
                f" the first is {missing[0]}",
                hint=f"unpack {TAR} again, or write folder:{root} without labels",
            )

    def stat_signature(self) -> str:
        self._mark_files()
        files = (self._file(picture) for picture in self._pictures)
        return stat_signature_of("flat", files=(*files_of(self._devkit), *files))

    def _file(self, picture: Picture) -> Path:
        return self.root / PurePosixPath(picture.name).name


class TarDataset(DevkitPictures):
    """The images in the official archive, read in place."""

    def __init__(self, name: str, root: Path, devkit: Path) -> None:
        super().__init__(name, root, devkit)
        self._tar = root / TAR
        self._mark = change_mark(self._tar)
        self._members = _index(self._tar, file_identity(self._tar))

    def stat_signature(self) -> str:
        return stat_signature_of("tar", files=(self._tar, *files_of(self._devkit)))

    def _openers(self, positions: Sequence[int]) -> Iterator[tuple[int, Opener]]:
        for position in positions:
            yield position, partial(self._opened, self._member(position))

    def _reading_order(self) -> Sequence[int]:
        # From one end to the other: a disk reads on several times as fast as it jumps.
        return sorted(range(len(self)), key=lambda position: self._member(position).offset)

    def _opened(self, member: Member) -> io.BytesIO:
        return io.BytesIO(read_at(self._tar, member, self._mark))

    def _member(self, position: int) -> Member:
        return self._members[PurePosixPath(self._pictures[position].name).name]


def _numbered(devkit: Path) -> tuple[tuple[str, ...], list[Picture]]:
    """Return the class names in sorted order, and the images as the kit numbers them."""
    wnids = validation_wnids(devkit, IMAGES, IMAGENET_CLASSES)
    class_names = tuple(sorted(set(wnids)))
    labels = {wnid: label for label, wnid in enumerate(class_names)}
    return class_names, [
        Picture(f"{wnid}/{_file_name(number)}", labels[wnid])
        for number, wnid in enumerate(wnids, 1)
    ]


# Reading 50,000 headers takes a second or more; a worker opens its dataset for every model.
@functools.lru_cache(maxsize=1)
def _index(tar: Path, _when: tuple[int, int, int]) -> dict[str, Member]:
    return index_members(tar, _file_names())


def _file_names() -> list[str]:
    return [_file_name(number) for number in range(1, IMAGES + 1)]


def _file_name(number: int) -> str:
    return f"ILSVRC2012_val_{number:08d}.JPEG"


def _what_to_put(root: Path) -> str:
    return (
        f"put {TAR} and {ARCHIVE} into {root} (from https://image-net.org, which wants an"
        " account), or its images in one subfolder a wnid; imagenet:PATH names another folder"
    )


def _info(syntax: str, sentence: str, home_folder: str | None) -> DatasetInfo:
    return DatasetInfo(
        syntax=syntax,
        sentence=sentence,
        images=IMAGES,
        classes=IMAGENET_CLASSES,
        home_folder=home_folder,
        licence="ImageNet terms of access: non-commercial research and education",
        source="https://image-net.org",
    )


KIND = DatasetKind(
    names=(
        _info(
            "imagenet",
            "Validation images of ImageNet, put into datasets/imagenet of the home by hand.",
            home_folder="imagenet",
        ),
        _info(
            "imagenet:PATH",
            "The same in a folder: wnid subfolders, or the official archive and devkit.",
            home_folder=None,
        ),
    ),
    open=open_imagenet,
)
