"""A part of a dataset, or another order of it, declared in its name.

``cifar10[:1000]``, ``cifar10[:1000 stratified]``, ``cifar10[order 3]``, ``cifar10[:1000 order 3]``:
the first images of the order, or equally many of every class. Positions count within what is
selected, so that everything that reads a dataset reads a part of one the same way.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from catalog.datasets.base import ORDER_SEED, ImageDataset, Sample
from catalog.datasets.order import place
from catalog.models.base import InputTransform
from survey.errors import DatasetError, SettingsError

_SELECTION = re.compile(
    r"\[(?::(?P<limit>[0-9]{1,12})(?P<stratified> stratified)?)?"
    r"(?:(?(limit) |)order (?P<order>[0-9]{1,9}))?\]"
)
_BEGINNINGS = ("[:", "[order ")
_HINT = "write NAME[:1000], NAME[:1000 stratified], NAME[order 3] or NAME[:1000 order 3]"

#: The most images another order can be made of: it takes a number in memory and a hash for each.
MOST_REORDERED = 10**7

#: The largest seed of an order, so that a name can hold it.
LARGEST_ORDER_SEED = 10**9 - 1


@dataclass(frozen=True, slots=True)
class ImageSelection:
    """Which images of a dataset are meant, and in which order."""

    #: How many; None for all.
    limit: int | None
    #: Whether every class gives equally many, as far as it can.
    stratified: bool = False
    #: Seed of the order; the dataset's own order has ``ORDER_SEED``.
    order_seed: int = ORDER_SEED

    def __str__(self) -> str:
        """Return how it is written behind a dataset's name; empty for all in its order."""
        parts = [] if self.limit is None else [f":{self.limit}"]
        parts += ["stratified"] if self.stratified else []
        parts += [f"order {self.order_seed}"] if self.order_seed != ORDER_SEED else []
        return f"[{' '.join(parts)}]" if parts else ""


def split_name(name: str) -> tuple[str, ImageSelection | None]:
    """Return a dataset's own name, and the selection written behind it.

    Raises
    ------
    DatasetError
        If there is a selection that cannot be understood.
    """
    start = _start(name)
    if start < 0:
        return name, None
    match = _SELECTION.fullmatch(name[start:])
    if match is None:
        raise DatasetError(f"{name!r} ends in no selection of images", hint=_HINT)
    limit = None if match["limit"] is None else int(match["limit"])
    if limit == 0:
        raise DatasetError(f"{name!r} selects 0 images, must be at least 1", hint=_HINT)
    if _start(name[:start]) >= 0:
        raise DatasetError(f"{name!r} selects images twice", hint=_HINT)
    seed = ORDER_SEED if match["order"] is None else int(match["order"])
    return name[:start], ImageSelection(limit, match["stratified"] is not None, seed)


def order_seed_of(name: str) -> int:
    """Return the seed of the order that a dataset's full name asks for."""
    _, selection = split_name(name)
    return ORDER_SEED if selection is None else selection.order_seed


def without_order(name: str) -> str:
    """Return a dataset's full name in its own order: ``digits[:9]`` for ``digits[:9 order 3]``."""
    whole, selection = split_name(name)
    return name if selection is None else f"{whole}{replace(selection, order_seed=ORDER_SEED)}"


def _start(name: str) -> int:
    """Return where the selection behind a name starts; -1 where there is none."""
    return max(map(name.rfind, _BEGINNINGS)) if name.endswith("]") else -1


def selected_name(
    name: str, limit: int | None, *, stratified: bool = False, order_seed: int | None = None
) -> str:
    """Return a dataset's name with a selection behind it.

    Parameters
    ----------
    name : str
        The dataset's name; with a selection of its own only where no other is given.
    limit : int or None
        How many images; None for all.
    stratified : bool
        Whether every class gives equally many.
    order_seed : int, optional
        Seed of the order; by default the dataset's own.

    Raises
    ------
    SettingsError
        If the limit is less than 1, there is none to be stratified, the seed cannot be used, or
        the name has one already.
    DatasetError
        If the name ends in a selection that cannot be understood.
    """
    whole, there = split_name(name)
    if limit is None and stratified:
        raise SettingsError(
            f"{name!r} is to be stratified, but has no limit",
            hint="give it a limit: how many images to take",
        )
    if limit is not None and limit < 1:
        raise SettingsError(f"the limit of {name!r} is {limit}, must be at least 1")
    if limit is not None and there is not None and there.limit is not None:
        raise SettingsError(
            f"{name!r} selects images already, and a limit of {limit} is given",
            hint="write one of the two",
        )
    selection = there or ImageSelection(None)
    if limit is not None:
        selection = replace(selection, limit=limit, stratified=stratified)
    if order_seed is not None:
        selection = replace(selection, order_seed=_new_seed(name, there, order_seed))
    return f"{whole}{selection}"


def _new_seed(name: str, there: ImageSelection | None, order_seed: int) -> int:
    if not 0 <= order_seed <= LARGEST_ORDER_SEED:
        raise SettingsError(
            f"the order seed of {name!r} is {order_seed}, must be between 0 and"
            f" {LARGEST_ORDER_SEED}",
            hint=f"{ORDER_SEED} is the dataset's own order",
        )
    if there is not None and there.order_seed not in (ORDER_SEED, order_seed):
        raise SettingsError(
            f"{name!r} names an order already, and an order seed of {order_seed} is given",
            hint="write one of the two",
        )
    return order_seed


class DatasetSubset(ImageDataset):
    """Some images of a dataset in its own order, or in another one that is as fixed.

    Parameters
    ----------
    dataset : ImageDataset
        The whole.
    selection : ImageSelection
        Which of its images.

    Raises
    ------
    DatasetError
        If there are not as many, or no labels to stratify by.
    """

    def __init__(self, dataset: ImageDataset, selection: ImageSelection) -> None:
        self.name = f"{dataset.name}{selection}"
        self.class_names, self.left_out = dataset.class_names, dataset.left_out
        self._dataset, self._selection = dataset, selection
        self._positions = _positions(dataset, selection)

    def __len__(self) -> int:
        return len(self._positions)

    def labels(self) -> Sequence[int | None]:
        labels = self._dataset.labels()
        if isinstance(self._positions, range):
            return labels[: len(self)]
        return tuple(labels[position] for position in self._positions)

    def stat_signature(self) -> str:
        return _hash(self._dataset.stat_signature(), self._selection)

    def fingerprint(self) -> str:
        """Return a sha256 (hex) over the whole's fingerprint and the selection.

        All of a dataset in its own order are the dataset: their fingerprint is the whole's.
        """
        whole, selection = self._dataset.fingerprint(), self._selection
        if len(self) == len(self._dataset):
            # However they were asked for: they differ by their order alone.
            selection = ImageSelection(None, order_seed=selection.order_seed)
        return _hash(whole, selection) if str(selection) else whole

    def pick(self, transform: InputTransform, positions: Sequence[int]) -> Iterator[Sample]:
        whole = [self._positions[position] for position in positions]
        samples = self._dataset.pick(transform, whole)
        for position, sample in zip(positions, samples, strict=True):
            yield replace(sample, position=position)


def _hash(whole: str, selection: ImageSelection) -> str:
    return hashlib.sha256(f"{whole}{selection}".encode()).hexdigest()


def _positions(dataset: ImageDataset, selection: ImageSelection) -> Sequence[int]:
    """Return the positions in the whole of the images selected, in the order they are read."""
    order = _order(dataset, selection.order_seed)
    if selection.limit is None:
        return order
    if not selection.stratified:
        _require_enough(dataset, selection, len(dataset))
        return order[: selection.limit]
    if not dataset.class_names:
        raise DatasetError(
            f"{dataset.name} has no labels to stratify by",
            hint=f"write {dataset.name}[:{selection.limit}]",
        )
    labels = dataset.labels()
    ranked = _ranked([labels[position] for position in order])
    _require_enough(dataset, selection, len(ranked))
    return tuple(order[at] for at in sorted(at for _, at in ranked[: selection.limit]))


def _order(dataset: ImageDataset, seed: int) -> Sequence[int]:
    """Return every position of a dataset, shuffled by a seed that is not its own order's."""
    if seed == ORDER_SEED:
        return range(len(dataset))
    if len(dataset) > MOST_REORDERED:
        raise DatasetError(
            f"{dataset.name} has {len(dataset):,} images, another order is made of at most"
            f" {MOST_REORDERED:,}",
            hint=f"write {dataset.name} for its own order",
        )
    return tuple(sorted(range(len(dataset)), key=lambda position: place(str(position), seed)))


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


def _require_enough(dataset: ImageDataset, selection: ImageSelection, images: int) -> None:
    if selection.limit is not None and selection.limit > images:
        kind = "images with labels" if selection.stratified else "images"
        raise DatasetError(
            f"{dataset.name}{selection} asks for {selection.limit:,} {kind}, there are {images:,}",
            hint=f"write {dataset.name} for all of them",
        )
