"""Encoded pictures in a fixed order, wherever their bytes lie: what such datasets share.

Owns order, labels, fingerprint and decoding. A kind of dataset says which pictures there are and
how one is opened. A picture that cannot be decoded is a sample with an error.
"""

from __future__ import annotations

import errno
import hashlib
import os
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import TypeAlias

from catalog.bounds import open_file
from catalog.datasets.base import ImageDataset, Sample, require_unchanged
from catalog.datasets.images.decoding import (
    DECODE_ERRORS,
    ahead,
    decoded,
    fitted,
    reason,
)
from catalog.datasets.order import fingerprint_of, place
from catalog.files import change_mark
from catalog.models.base import InputTransform
from survey.errors import DatasetError
from survey.text import printable

#: Stands for the hash of a picture without bytes, such as a link to nowhere.
UNREADABLE = "unreadable"

#: Opens one picture's bytes; raises ValueError where it has none.
Opener: TypeAlias = Callable[[], AbstractContextManager[BufferedReader | BytesIO]]


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
        given = tuple(pictures)
        #: Which of the pictures given is at each position.
        self._order = sorted(range(len(given)), key=lambda number: place(given[number].name))
        self._pictures = tuple(given[number] for number in self._order)

    def __len__(self) -> int:
        return len(self._pictures)

    def labels(self) -> Sequence[int | None]:
        return tuple(picture.label for picture in self._pictures)

    def fingerprint(self) -> str:
        hashes = [""] * len(self)
        for position, opener in self._openers(self._reading_order()):
            hashes[position] = self._sha256(position, opener)
        hashed = zip(self._pictures, hashes, strict=True)
        return fingerprint_of(
            self.class_names,
            ((picture.name, picture.label, content) for picture, content in hashed),
        )

    def pick(self, transform: InputTransform, positions: Sequence[int]) -> Iterator[Sample]:
        return ahead(lambda task: self._sample(*task, transform), self._openers(positions))

    @abstractmethod
    def _openers(self, positions: Sequence[int]) -> Iterator[tuple[int, Opener]]:
        """Yield each position with what opens its picture, drawn by one thread."""

    def _reading_order(self) -> Sequence[int]:
        """Return all positions in the order in which the medium is read fastest."""
        return range(len(self))

    def _sha256(self, position: int, opener: Opener) -> str:
        try:
            with opener() as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except (OSError, ValueError) as problem:
            self._require_there(self._pictures[position], problem)
            return UNREADABLE

    def _sample(self, position: int, opener: Opener, transform: InputTransform) -> Sample:
        picture = self._pictures[position]
        name = printable(picture.name)
        try:
            with opener() as file:
                whole = decoded(file, transform)
                self._require_unchanged(position, file)
        except DECODE_ERRORS as problem:
            self._require_there(picture, problem)
            self._require_unchanged(position)
            cause = reason(problem).replace(f"{self.root}{os.sep}", "")
            error = printable(f"{picture.name} cannot be decoded: {cause}")
            return Sample(position, name, None, picture.label, error)
        return Sample(position, name, fitted(whole, transform), picture.label)

    def _require_there(self, picture: Picture, problem: BaseException) -> None:
        """Raise if a problem is not the picture's, but its file's or its disk's."""

    def _require_unchanged(
        self, position: int, file: BufferedReader | BytesIO | None = None
    ) -> None:
        """Raise if a picture, which was read from a file that may be open yet, changed."""


class FilePictures(PictureDataset):
    """Pictures that are files of their own; a kind of dataset gives the place of each."""

    #: The ``change_mark`` of each file, of when the first signature was taken.
    _marks: array[int] | None = None

    @abstractmethod
    def _file(self, picture: Picture) -> Path:
        """Return a picture's file."""

    def _openers(self, positions: Sequence[int]) -> Iterator[tuple[int, Opener]]:
        for position in positions:
            yield position, partial(self._opened, position)

    def _opened(self, position: int) -> BufferedReader:
        return open_file(self._file(self._pictures[position]))

    def _mark_files(self) -> None:
        """Note what state every file is in, the first time; what is picked later must be in it."""
        if self._marks is None:
            self._marks = array("q", map(change_mark, map(self._file, self._pictures)))

    def _require_unchanged(
        self, position: int, file: BufferedReader | BytesIO | None = None
    ) -> None:
        if self._marks is not None:
            path = self._file(self._pictures[position])
            now = change_mark(file.fileno() if file else path)
            require_unchanged(path, self._marks[position], now)

    def _require_there(self, picture: Picture, problem: BaseException) -> None:
        if not isinstance(problem, OSError) or problem.errno is None:
            return
        # A place in a damaged picture to which no file reaches; opening names its file.
        if problem.errno == errno.EINVAL and problem.filename is None:
            return
        path = self._file(picture)
        # A link to nowhere is a broken picture. Passing over any other that cannot be read would
        # measure another dataset under this one's name.
        if path.is_symlink() and not os.path.exists(path):  # noqa: PTH110 - False where it may not look
            return
        raise DatasetError(
            f"{printable(str(path))} cannot be read: {problem.strerror}",
            hint="make it readable or take it away; where its disk was not there, run the same"
            " command again when it is",
        ) from problem
