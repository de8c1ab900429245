"""Folders of pictures: one subfolder a class, or a flat folder without labels.

The layout and the file extensions are those of torchvision's ImageFolder.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from catalog.datasets.order import size_and_time
from catalog.datasets.pictures import FilePictures, Picture
from survey.errors import DatasetError

#: File name endings that count as pictures, in lower case.
EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


class FolderDataset(FilePictures):
    """Pictures below a folder, in an order that depends on their relative paths alone.

    Parameters
    ----------
    name : str
        The name it was asked for by, such as ``folder:cifar10-sample``.
    root : Path
        The folder.

    Raises
    ------
    DatasetError
        If there is no such folder, or no picture in it.
    """

    def __init__(self, name: str, root: Path) -> None:
        super().__init__(name, root, *_scan(root))

    def stat_signature(self) -> str:
        """Return a sha256 (hex) over the folder and its files' names, sizes and times."""
        digest = hashlib.sha256(repr((str(self.root.resolve()), self.class_names)).encode())
        for picture in self._pictures:
            digest.update(repr((picture, *size_and_time(self._file(picture)))).encode())
        return digest.hexdigest()

    def _file(self, picture: Picture) -> Path:
        return self.root / picture.name


def _scan(root: Path) -> tuple[tuple[str, ...], list[Picture]]:
    """Return the class names in sorted order and the pictures of all of them."""
    if not root.is_dir():
        happened = "is not a folder" if root.exists() else "does not exist"
        raise DatasetError(
            f"dataset folder {root} {happened}",
            hint="a relative path starts where the command was called, or beside the survey file",
        )
    classes = tuple(
        sorted(entry.name for entry in root.iterdir() if entry.is_dir() and _shown(entry.name))
    )
    pictures = [
        Picture(path.relative_to(root).as_posix(), label)
        for label, class_name in enumerate(classes)
        for path in _files(root / class_name)
    ]
    if pictures:
        return classes, pictures
    flat = [Picture(path.name, None) for path in root.iterdir() if _is_picture(path)]
    if not flat:
        raise DatasetError(
            f"dataset folder {root} holds no pictures; counted are {', '.join(EXTENSIONS)}",
            hint="lay them out as CLASS/NAME.jpg, or as NAME.jpg for pictures without labels",
        )
    return (), flat


def _files(folder: Path) -> Iterator[Path]:
    """Yield the pictures below a class folder; links are followed, but never in a circle."""
    for parent, folders, files in os.walk(folder, followlinks=True):
        here = Path(parent)
        above = here.resolve()
        folders[:] = [
            name
            for name in folders
            if _shown(name) and not above.is_relative_to((here / name).resolve())
        ]
        yield from (here / name for name in files if _is_picture(here / name))


def _is_picture(path: Path) -> bool:
    name = path.name
    return (
        _shown(name) and name.lower().endswith(EXTENSIONS) and (path.is_file() or path.is_symlink())
    )


def _shown(name: str) -> bool:
    return not name.startswith(".")
