"""Folders of pictures: one subfolder a class, or a flat folder without labels.

The layout, the file extensions, the decoding and the transform are those of torchvision's
ImageFolder and classification presets. A picture that cannot be decoded is a sample with an error.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, UnidentifiedImageError

from catalog.datasets.base import ORDER_SEED, Sample
from catalog.models.base import InputTransform
from survey.errors import DatasetError

if TYPE_CHECKING:
    import torch

#: File name endings that count as pictures, in lower case.
EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")

#: Formats Pillow may try, whatever a file calls itself: others run programs (EPS: Ghostscript).
FORMATS = ("JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP")

#: Pixels of the largest picture decoded: Pillow's own line for decompression bombs.
MOST_PIXELS = 89_478_485

_THREADS = 2
_WINDOW = 32

#: What Pillow's readers raise on files that are not what they claim to be.
_DECODE_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    ArithmeticError,
    LookupError,
    TypeError,
    AttributeError,
    RuntimeError,
    EOFError,
    MemoryError,
    struct.error,
    Image.DecompressionBombError,
    Warning,
)


@dataclass(frozen=True, slots=True)
class _Picture:
    """One file: its path below the folder, and its class."""

    name: str
    label: int | None


class FolderDataset:
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
        self.name = name
        self.root = root
        self.class_names, pictures = _scan(root)
        self._pictures = tuple(sorted(pictures, key=_place))

    def __len__(self) -> int:
        """Return the number of pictures, broken ones included."""
        return len(self._pictures)

    def stat_signature(self) -> str:
        """Return a sha256 (hex) over the folder and its files' names, sizes and times.

        Equal signatures mean that ``fingerprint`` need not be computed again.
        """
        digest = hashlib.sha256(repr((str(self.root.resolve()), self.class_names)).encode())
        for picture in self._pictures:
            digest.update(repr((picture, *_stat(self.root / picture.name))).encode())
        return digest.hexdigest()

    def fingerprint(self) -> str:
        """Return a sha256 (hex) over every picture's bytes, name and label, and the order."""
        digest = hashlib.sha256(repr(self.class_names).encode())
        for picture in self._pictures:
            content = _content_sha256(self.root / picture.name)
            digest.update(repr((picture.name, picture.label, content)).encode())
        return digest.hexdigest()

    def samples(self, transform: InputTransform, start: int = 0) -> Iterator[Sample]:
        """Yield the pictures from position ``start`` on, decoded a few ahead.

        Parameters
        ----------
        transform : InputTransform
            Resize and centre crop, as torchvision does them. Its mean and deviation are not used.
        start : int
            The first position yielded.

        Yields
        ------
        Sample
            uint8 pixels of shape (3, size, size); None, with the reason, for a broken picture.
        """
        rest = enumerate(self._pictures[start:], start)
        tasks = ((position, picture, transform) for position, picture in rest)
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="decode") as pool:
            window = deque(self._submit(pool, islice(tasks, _WINDOW)))
            try:
                while window:
                    sample = window.popleft().result()
                    window.extend(self._submit(pool, islice(tasks, 1)))
                    yield sample
            finally:
                pool.shutdown(cancel_futures=True)

    def _submit(
        self,
        pool: ThreadPoolExecutor,
        tasks: Iterable[tuple[int, _Picture, InputTransform]],
    ) -> Iterator[Future[Sample]]:
        return (pool.submit(self._sample, *task) for task in tasks)

    def _sample(self, position: int, picture: _Picture, transform: InputTransform) -> Sample:
        path = self.root / picture.name
        try:
            decoded = _decode(path, transform.resize)
        except _DECODE_ERRORS as problem:
            gone = isinstance(problem, OSError) and problem.errno is not None
            if gone and not path.is_symlink():
                # The file or its disk is gone: that is no broken picture, and passing it over would
                # measure another dataset under this one's name.
                raise DatasetError(
                    f"{_printable(str(path))} cannot be read any more: {problem}",
                    hint="is the folder still mounted? run the same command again when it is",
                ) from problem
            error = f"{picture.name} cannot be decoded: {_words(problem, self.root)}"
            name, told = _printable(picture.name), _printable(error)
            return Sample(position, name, None, picture.label, told)
        pixels = _fitted(decoded, transform)
        return Sample(position, _printable(picture.name), pixels, picture.label)


def _printable(text: str) -> str:
    """Return a name that can be stored and shown, though it be no text in the file system."""
    return text.encode(errors="backslashreplace").decode()


def _decode(path: Path, resize: int) -> Image.Image:
    with path.open("rb") as file:
        opened = Image.open(file, formats=FORMATS)
        _check_size(*opened.size, resize)
        return opened.convert("RGB")


def _fitted(picture: Image.Image, transform: InputTransform) -> torch.Tensor:
    """Return the picture resized and cropped at its centre, as uint8 (3, size, size)."""
    from torchvision.transforms import InterpolationMode, functional

    mode = InterpolationMode(transform.interpolation)
    resized = functional.resize(picture, [transform.resize], mode, antialias=True)
    cropped = functional.center_crop(resized, [transform.size, transform.size])
    pixels: torch.Tensor = functional.pil_to_tensor(cropped)
    return pixels


def _check_size(width: int, height: int, resize: int) -> None:
    # A small file of a huge or hair-thin picture fills the memory, once decoded or once enlarged.
    enlarged = resize * resize * max(width, height) // max(1, min(width, height))
    if max(width * height, enlarged) > MOST_PIXELS:
        raise ValueError(
            f"it has {width} x {height} pixels, at most {MOST_PIXELS:,} are decoded"
            f" (as it is, and with the shorter side at {resize})"
        )


def _words(problem: BaseException, root: Path) -> str:
    if isinstance(problem, UnidentifiedImageError):
        return "the file is not a picture"
    words = str(problem).replace(f"{root}{os.sep}", "")
    return words or type(problem).__name__


def _place(picture: _Picture) -> bytes:
    """Return a key that shuffles pictures, the same way on every platform and for ever."""
    return hashlib.sha256(f"{ORDER_SEED}/{picture.name}".encode(errors="surrogateescape")).digest()


def _scan(root: Path) -> tuple[tuple[str, ...], list[_Picture]]:
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
        _Picture(path.relative_to(root).as_posix(), label)
        for label, class_name in enumerate(classes)
        for path in _files(root / class_name)
    ]
    if pictures:
        return classes, pictures
    flat = [_Picture(path.name, None) for path in root.iterdir() if _is_picture(path)]
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


def _stat(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        return -1, -1
    # A copy that keeps its times still changes the time its entry changed.
    return status.st_size, max(status.st_mtime_ns, status.st_ctime_ns)


def _content_sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return "unreadable"
