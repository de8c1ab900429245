"""Folders of pictures: one subfolder a class, or a flat folder without labels.

The layout and the file extensions are those of torchvision's ImageFolder.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from catalog.datasets.images.encoded import FilePictures, Picture
from catalog.datasets.kind import DatasetInfo, DatasetKind
from catalog.files import file_identity
from survey.errors import DatasetError
from survey.text import counted, printable

#: File name endings that count as pictures, in lower case, and those of other pictures.
EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
_OTHERS = (".gif", ".heic", ".heif", ".avif", ".jp2", ".jxl", ".dng")


class FolderDataset(FilePictures):
    """Pictures below a folder, in an order that depends on their relative paths alone.

    Parameters
    ----------
    name : str
        The name it was asked for by, such as ``folder:cifar10-sample``.
    root : Path
        The folder.
    apart : collection of str
        Names of folders below it that are no classes.

    Raises
    ------
    DatasetError
        If there is no such folder, or no picture in it.
    """

    def __init__(self, name: str, root: Path, apart: Collection[str] = ()) -> None:
        others: Counter[str] = Counter()
        super().__init__(name, root, *_scan(root, others, apart))
        parts = [f"{counted(number, 'picture')} {where}" for where, number in others.items()]
        self.left_out = " and ".join(parts) or None

    def stat_signature(self) -> str:
        self._mark_files()
        digest = hashlib.sha256(repr((str(self.root.resolve()), self.class_names)).encode())
        for picture in self._pictures:
            digest.update(repr((picture, *file_identity(self._file(picture)))).encode())
        return digest.hexdigest()

    def _file(self, picture: Picture) -> Path:
        return self.root / picture.name


def _scan(
    root: Path, others: Counter[str], apart: Collection[str]
) -> tuple[tuple[str, ...], list[Picture]]:
    """Return the class names in sorted order and the pictures of all of them; count the others."""
    try:
        return _listed(root, others, apart)
    except OSError as problem:
        # A part that cannot be listed would be missing under the whole's name.
        raise DatasetError(
            f"dataset folder {root} cannot be read:"
            f" {problem.strerror}: {printable(str(problem.filename))}",
            hint="make it readable, or take it out of the folder",
        ) from problem


def _listed(
    root: Path, others: Counter[str], apart: Collection[str]
) -> tuple[tuple[str, ...], list[Picture]]:
    if not root.is_dir():
        happened = "is not a folder" if root.exists() else "does not exist"
        raise DatasetError(
            f"dataset folder {root} {happened}",
            hint="a relative path starts where the command was called, or beside the survey file",
        )
    folders = (entry.name for entry in root.iterdir() if entry.is_dir())
    classes = tuple(sorted(name for name in folders if _shown(name) and name not in apart))
    pictures = [
        Picture(os.path.relpath(path, root), label)
        for label, class_name in enumerate(classes)
        for path in _files(root / class_name, others)
    ]
    with os.scandir(root) as entries:
        flat = [Picture(each.name, None) for each in entries if _is_picture(each, others)]
    if pictures:
        others.update({"beside the class folders": len(flat)} if flat else {})
        return classes, pictures
    if not flat:
        raise DatasetError(
            f"dataset folder {root} holds no pictures; counted are {', '.join(EXTENSIONS)}",
            hint="lay them out as CLASS/NAME.jpg, or as NAME.jpg for pictures without labels",
        )
    return (), flat


def _files(folder: Path, others: Counter[str]) -> Iterator[str]:
    """Yield the pictures below a class folder; links are followed, but never in a circle."""
    # Each folder with the real ones on the way to it: a link to any of them, or above, goes round.
    waiting: list[tuple[str, tuple[Path, ...]]] = [(str(folder), (folder.resolve(),))]
    while waiting:
        here, way = waiting.pop()
        with os.scandir(here) as entries:
            for entry in entries:
                if _is_picture(entry, others):
                    yield entry.path
                elif _shown(entry.name) and _is_folder(entry):
                    real = (
                        Path(entry.path).resolve() if entry.is_symlink() else way[-1] / entry.name
                    )
                    if not any(passed.is_relative_to(real) for passed in way):
                        waiting.append((entry.path, (*way, real)))


def _is_picture(entry: os.DirEntry[str], others: Counter[str]) -> bool:
    """Return whether a file counts as a picture; count it if it is one of another kind."""
    name = entry.name.lower()
    if _shown(name) and name.endswith(_OTHERS) and _is_file(entry):
        others[f"of kinds that are not read ({', '.join(_OTHERS)})"] += 1
    return _shown(name) and name.endswith(EXTENSIONS) and _is_file(entry)


def _is_file(entry: os.DirEntry[str]) -> bool:
    if not entry.is_symlink():
        return entry.is_file()
    # A link to nowhere is a broken picture; one to a pipe or a device would be read for ever.
    path = Path(entry.path)
    return path.is_file() or not path.exists()


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return Path(entry.path).is_dir() if entry.is_symlink() else entry.is_dir()


def _shown(name: str) -> bool:
    return not name.startswith(".")


KIND = DatasetKind(
    names=(
        DatasetInfo(
            syntax="folder:PATH",
            sentence="Pictures below a folder: one subfolder a class, or none and no labels.",
        ),
    ),
    open=lambda request: FolderDataset(request.name, request.path),
)
