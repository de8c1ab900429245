"""A part of a dataset, declared in its name: ``cifar10[:1000]``, ``cifar10[:1000 stratified]``.

The first images of the fixed order, or equally many of every class. Positions count within the
part, so that everything that reads a dataset reads a part of one the same way.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from catalog.datasets.base import ImageDataset, Sample
from catalog.models.base import InputTransform
from survey.errors import DatasetError, SettingsError

_SELECTION = re.compile(r"\[:(?P<limit>[0-9]{1,12})(?P<stratified> stratified)?\]")
_HINT = "write NAME[:1000] or NAME[:1000 stratified]"


@dataclass(frozen=True, slots=True)
class Selection:
    """Which images of a dataset are meant."""

    #: How many.
    limit: int
    #: Whether every class gives equally many, as far as it can.
    stratified: bool = False

    def __str__(self) -> str:
        """Return how it is written behind a dataset's name."""
        return f"[:{self.limit}{' stratified' if self.stratified else ''}]"


def split_name(name: str) -> tuple[str, Selection | None]:
    """Return a dataset's own name, and the selection written behind it.

    Raises
    ------
    DatasetError
        If there is a selection that cannot be understood.
    """
    start = name.rfind("[:")
    if start < 0 or not name.endswith("]"):
        return name, None
    match = _SELECTION.fullmatch(name[start:])
    if match is None:
        raise DatasetError(f"{name!r} ends in no selection of images", hint=_HINT)
    limit = int(match["limit"])
    if limit < 1:
        raise DatasetError(f"{name!r} selects 0 images, must be at least 1", hint=_HINT)
    if name[:start].endswith("]") and "[:" in name[:start]:
        raise DatasetError(f"{name!r} selects images twice", hint=_HINT)
    return name[:start], Selection(limit, match["stratified"] is not None)


def selected_name(name: str, limit: int | None, *, stratified: bool = False) -> str:
    """Return a dataset's name with a selection behind it.

    Parameters
    ----------
    name : str
        The dataset's name; with a selection of its own only where no other is given.
    limit : int or None
        How many images; None for all.
    stratified : bool
        Whether every class gives equally many.

    Raises
    ------
    SettingsError
        If the limit is less than 1, there is none to be stratified, or the name has one already.
    DatasetError
        If the name ends in a selection that cannot be understood.
    """
    _, there = split_name(name)
    if limit is None:
        if stratified:
            raise SettingsError(
                f"{name!r} is to be stratified, but has no limit",
                hint="say how many images to take: limit (--limit)",
            )
        return name
    if limit < 1:
        raise SettingsError(f"the limit of {name!r} is {limit}, must be at least 1")
    if there is not None:
        raise SettingsError(
            f"{name!r} selects images already, and a limit of {limit} is given",
            hint="write one of the two",
        )
    return f"{name}{Selection(limit, stratified)}"


class Selected:
    """Some images of a dataset, in its fixed order.

    Parameters
    ----------
    dataset : ImageDataset
        The whole.
    selection : Selection
        Which of its images.

    Raises
    ------
    DatasetError
        If there are not as many, or no labels to stratify by.
    """

    def __init__(self, dataset: ImageDataset, selection: Selection) -> None:
        self.name = f"{dataset.name}{selection}"
        self.class_names = dataset.class_names
        self._dataset, self._selection = dataset, selection
        self._positions = _positions(dataset, selection)

    def __len__(self) -> int:
        """Return the number of images selected, broken ones included."""
        return len(self._positions)

    def labels(self) -> Sequence[int | None]:
        """Return the label of every image selected, in the fixed order."""
        labels = self._dataset.labels()
        if isinstance(self._positions, range):
            return labels[: len(self)]
        return tuple(labels[position] for position in self._positions)

    def stat_signature(self) -> str:
        """Return a sha256 (hex) that is quick to get, over the whole's and the selection."""
        return self._hash(self._dataset.stat_signature())

    def fingerprint(self) -> str:
        """Return a sha256 (hex) over the whole's fingerprint and the selection.

        All of a dataset are the dataset: their fingerprint is the whole's.
        """
        whole = self._dataset.fingerprint()
        return whole if len(self) == len(self._dataset) else self._hash(whole)

    def samples(self, transform: InputTransform, start: int = 0) -> Iterator[Sample]:
        """Yield the images selected from position ``start`` on, in the fixed order."""
        return self.pick(transform, range(start, len(self)))

    def pick(self, transform: InputTransform, positions: Sequence[int]) -> Iterator[Sample]:
        """Yield the images at these positions of the selection alone, in the order given."""
        whole = [self._positions[position] for position in positions]
        samples = self._dataset.pick(transform, whole)
        for position, sample in zip(positions, samples, strict=True):
            yield replace(sample, position=position)

    def _hash(self, whole: str) -> str:
        return hashlib.sha256(f"{whole}{self._selection}".encode()).hexdigest()


def _positions(dataset: ImageDataset, selection: Selection) -> Sequence[int]:
    if not selection.stratified:
        _require_enough(dataset, selection, len(dataset))
        return range(selection.limit)
    if not dataset.class_names:
        raise DatasetError(
            f"{dataset.name} has no labels to stratify by",
            hint=f"write {dataset.name}[:{selection.limit}]",
        )
    ranked = _ranked(dataset.labels())
    _require_enough(dataset, selection, len(ranked))
    return tuple(sorted(position for _, position in ranked[: selection.limit]))


def _ranked(labels: Sequence[int | None]) -> list[tuple[int, int]]:
    """Return (how many of its class come before it, position) of labelled images, sorted.

    The first so many of them are equally many of every class, until a class has no more; what is
    left over by division goes to the classes that come first in the order.
    """
    seen: Counter[int] = Counter()
    ranked = []
    for position, label in enumerate(labels):
        if label is not None:
            ranked.append((seen[label], position))
            seen[label] += 1
    return sorted(ranked)


def _require_enough(dataset: ImageDataset, selection: Selection, images: int) -> None:
    if selection.limit > images:
        kind = "images with labels" if selection.stratified else "images"
        raise DatasetError(
            f"{dataset.name}{selection} asks for {selection.limit:,} {kind}, there are {images:,}",
            hint=f"write {dataset.name} for all of them",
        )
