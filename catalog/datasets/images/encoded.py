"""Encoded pictures in a fixed order, wherever their bytes lie: what such datasets share.

Owns order, labels, fingerprint and decoding. A kind of dataset says which pictures there are and
how one is opened. A picture that cannot be decoded is a sample with an error.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

from catalog.datasets.base import ImageDataset, Sample
from catalog.datasets.images.decoding import (
    DECODE_ERRORS,
    ahead,
    decoded,
    fitted,
    printable,
    reason,
)
from catalog.datasets.order import fingerprint_of, place
from catalog.models.base import InputTransform
from survey.errors import DatasetError

#: Stands for the hash of a picture without bytes, such as a link to nowhere.
UNREADABLE = "unreadable"

#: Opens one picture's bytes; raises ValueError where it has none.
Opener: TypeAlias = Callable[[], AbstractContextManager[BinaryIO]]


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: its name, which decides its place, and its class."""

    #: Unique within the dataset; a path, where it is a file.
    name: str
    #: Index among the dataset's classes; None where there are no labels.
    label: int | None


class PictureDataset(ImageDataset, ABC):
    """Pictures in an order that depends on their names alone.

    Parameters
    ----------
    name : str
        The name it was asked for by.
    root : Path
        The folder or file it lies in.
    class_names : tuple of str
        Class names by label.
    pictures : iterable of Picture
        All of them, in any order.
    """

    def __init__(
        self, name: str, root: Path, class_names: tuple[str, ...], pictures: Iterable[Picture]
    ) -> None:
        self.name = name
        self.root = root
        self.class_names = class_names
        self._pictures = tuple(sorted(pictures, key=lambda picture: place(picture.name)))

    def __len__(self) -> int:
        """Return the number of pictures, broken ones included."""
        return len(self._pictures)

    def labels(self) -> Sequence[int | None]:
        """Return every picture's label in the fixed order."""
        return tuple(picture.label for picture in self._pictures)

    @abstractmethod
    def stat_signature(self) -> str:
        """Return a sha256 (hex) over what the files look like from outside.

        Equal signatures mean that ``fingerprint`` need not be computed again.
        """

    def fingerprint(self) -> str:
        """Return a sha256 (hex) over every picture's bytes, name and label, and the order."""
        hashed = zip(self._pictures, self._hashes(), strict=True)
        return fingerprint_of(
            self.class_names,
            ((picture.name, picture.label, content) for picture, content in hashed),
        )

    def pick(self, transform: InputTransform, positions: Sequence[int]) -> Iterator[Sample]:
        """Yield the pictures at these positions, decoded a few ahead; None for broken ones."""

        def sample(task: tuple[int, Opener]) -> Sample:
            return self._sample(*task, transform)

        yield from ahead(sample, self._openers(positions))

    @abstractmethod
    def _openers(self, positions: Sequence[int]) -> Iterator[tuple[int, Opener]]:
        """Yield each position with what opens its picture, drawn by one thread."""

    @abstractmethod
    def _hashes(self) -> Iterator[str]:
        """Yield the sha256 (hex) of every picture's bytes, in the fixed order."""

    def _hashes_by(self, reading_order: Sequence[int]) -> Iterator[str]:
        """As ``_hashes``, reading the positions in the order that suits the medium."""
        hashes = [""] * len(self)
        for position, opener in self._openers(reading_order):
            hashes[position] = _sha256(opener)
        yield from hashes

    def _sample(self, position: int, opener: Opener, transform: InputTransform) -> Sample:
        picture = self._pictures[position]
        name = printable(picture.name)
        try:
            with opener() as file:
                whole = decoded(file, transform)
        except DECODE_ERRORS as problem:
            self._require_there(picture, problem)
            cause = reason(problem).replace(f"{self.root}{os.sep}", "")
            error = printable(f"{picture.name} cannot be decoded: {cause}")
            return Sample(position, name, None, picture.label, error)
        return Sample(position, name, fitted(whole, transform), picture.label)

    def _require_there(self, picture: Picture, problem: BaseException) -> None:
        """Raise if a problem is not the picture's, but its file's or its disk's."""


class FilePictures(PictureDataset):
    """Pictures that are files of their own; a kind of dataset gives the place of each."""

    @abstractmethod
    def _file(self, picture: Picture) -> Path:
        """Return a picture's file."""

    def _openers(self, positions: Sequence[int]) -> Iterator[tuple[int, Opener]]:
        for position in positions:
            yield position, _file_opener(self._file(self._pictures[position]))

    def _hashes(self) -> Iterator[str]:
        return (_file_sha256(self._file(picture)) for picture in self._pictures)

    def _require_there(self, picture: Picture, problem: BaseException) -> None:
        """Raise if the file or its disk is gone."""
        if isinstance(problem, OSError) and problem.errno is not None:
            _require_nowhere(self._file(picture), problem)


def _file_opener(path: Path) -> Opener:
    return lambda: path.open("rb")


def _file_sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as problem:
        _require_nowhere(path, problem)
        return UNREADABLE


def _require_nowhere(path: Path, problem: OSError) -> None:
    """Raise, unless what cannot be read is a link to nowhere: that is a broken picture."""
    # Passing over another one would measure another dataset under this one's name.
    if path.is_symlink() and not os.path.exists(path):  # noqa: PTH110 - False where it may not look
        return
    raise DatasetError(
        f"{printable(str(path))} cannot be read: {problem.strerror}",
        hint="make it readable or take it away; where its disk was not there, run the same"
        " command again when it is",
    ) from problem


def _sha256(opener: Opener) -> str:
    try:
        with opener() as file:
            return hashlib.sha256(file.read()).hexdigest()
    except ValueError:
        return UNREADABLE
