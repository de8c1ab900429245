"""Axes: what each axis of a tensor is made of, part by part, and the view that is pooled.

An axis is a product of parts, the slowest-moving first: the images, channels, or positions. A
reshape regroups the parts and never mixes them, so that groups of channels folded into the
batch, or maps flattened into vectors, are told apart again. What no rule follows is a part whose
role was lost. A tensor without any part of channels, such as a mean over them, has one channel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

import torch

#: What a part of an axis runs over; ``lost`` where no rule tells.
PartRole = Literal["images", "channels", "positions", "lost"]

_LETTERS: dict[PartRole, str] = {"images": "N", "channels": "C", "positions": "*", "lost": "*"}


@dataclass(frozen=True, slots=True)
class Part:
    """A factor of the length of an axis."""

    role: PartRole
    size: int


#: The parts of one axis, the slowest-moving first; none for an axis of length 1 that was added.
Axis = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The whole axes of one tensor that hold the images and the channels, for pooling.

    Parameters
    ----------
    images : int or None
        Axis whose slowest-moving part runs over images; None if that was lost.
    channels : tuple of int
        Axes that together hold the channels, ascending; empty if that was lost.
    """

    images: int | None
    channels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Axes:
    """The axes of one tensor.

    Parameters
    ----------
    each : tuple of tuple of Part
        The parts of every axis.
    constant : bool
        Whether the tensor does not depend on the network's input; then there are no axes.
    """

    each: tuple[Axis, ...]
    constant: bool = False

    def describe(self) -> str:
        """Return the axes as text, such as ``N,C,*,*``, ``N*4,*,C`` or ``N,C*49``."""
        return ",".join(map(_text, self.each))

    def spatial(self, shape: Sequence[int]) -> str:
        """Return the sizes of the positions, such as ``56x56``; empty where there are none."""
        sizes = []
        for axis, size in zip(self.each, shape, strict=True):
            roles = {part.role for part in axis}
            if not roles & {"images", "channels"}:
                sizes.append(size)
            elif roles == {"channels", "positions"}:
                sizes.append(math.prod(part.size for part in axis if part.role == "positions"))
        return "x".join(map(str, sizes))

    def holding(self, role: PartRole) -> list[int]:
        """Return the places of the axes that have a part with this role."""
        # Asked ten times a site: as plain loops three times as fast as with any() and a generator.
        places = []
        for place, axis in enumerate(self.each):
            for part in axis:
                if part.role == role:
                    places.append(place)
                    break
        return places

    def same_for_all_images(self) -> bool:
        """Return whether no axis runs over several images, for all that is known."""
        parts = chain.from_iterable(self.each)
        return not any(p.role == "lost" or (p.role == "images" and p.size > 1) for p in parts)

    def fits(self, shape: Sequence[int]) -> bool:
        """Return whether the axes have the lengths of a shape."""
        return tuple(map(length, self.each)) == tuple(shape)

    def regrouped(self, shape: Sequence[int]) -> Axes:
        """Return the axes after a call that keeps the elements' order.

        Parameters
        ----------
        shape : sequence of int
            The new lengths. Neighbours that no new axis divides evenly lose their roles.
        """
        if math.prod(map(length, self.each)) != math.prod(shape) or not math.prod(shape):
            return lost(shape)
        # A single position is nothing to keep; a single image or channel has its role.
        parts = chain.from_iterable(self.each)
        left = list(_joined(p for p in parts if p.size > 1 or p.role in ("images", "channels")))
        axes = [_taken(left, size) for size in shape]
        if left and axes:
            # Parts of size 1 that no axis needed.
            axes[-1] += tuple(left)
        return Axes(tuple(axes))

    def resized(self, shape: Sequence[int], *, channels: bool) -> Axes:
        """Return the axes with other lengths; ``channels`` tells whether theirs may change."""
        pairs = zip(self.each, shape, strict=True)
        return Axes(tuple(resized(axis, size, channels=channels) for axis, size in pairs))

    def with_channels(self, place: int, shape: Sequence[int]) -> Axes:
        """Return the axes after a call that makes new features along one of them."""
        axes = [_without_channels(axis, size) for axis, size in zip(self.each, shape, strict=True)]
        axes[place] = (Part("channels", shape[place]),)
        return Axes(tuple(axes))

    def collapsed(self) -> Axes:
        """Return the axes of a tensor that was averaged over its positions."""
        return Axes(
            tuple(
                tuple(replace(part, size=1) if part.role == "positions" else part for part in axis)
                for axis in self.each
            )
        )

    def lengths(self) -> list[int]:
        """Return the lengths of the axes."""
        return [length(axis) for axis in self.each]

    def whole(self, images: int) -> Layout:
        """Return which whole axes hold the images and the channels."""
        held = [p for axis in self.each for p in axis if p.role == "images"]
        places = self.holding("images") if [p.size for p in held] == [images] else []
        known = not self.holding("lost")
        channels = tuple(self.holding("channels")) if known else ()
        return Layout(places[0] if places else None, channels)

    def unfolded(self, tensor: torch.Tensor, images: int) -> tuple[torch.Tensor, Layout]:
        """Return a view whose axes hold one role each, and which of them hold what.

        Parameters
        ----------
        tensor : torch.Tensor
            Of these axes.
        images : int
            Images in the pass. Positions folded behind them stay in their axis.

        Returns
        -------
        torch.Tensor
            A view of the tensor.
        Layout
            Without images or channels where those were lost.
        """
        if not self.fits(tensor.shape):
            return tensor, Layout(None, ())
        # Windows folded into the batch are left there: pooling averages them.
        split = [[axis] if _is_plain(axis) else [(part,) for part in axis] for axis in self.each]
        axes = Axes(tuple(chain.from_iterable(split)))
        view = tensor if len(axes.each) == tensor.ndim else tensor.view(axes.lengths())
        layout = axes.whole(images)
        if layout.channels or axes.holding("lost") or layout.images is None:
            return view, layout
        return view.unsqueeze(-1), Layout(layout.images, (view.ndim,))


def length(axis: Axis) -> int:
    """Return the length of an axis."""
    return axis[0].size if len(axis) == 1 else math.prod(part.size for part in axis)


def lost(shape: Sequence[int], images: bool = False) -> Axes:
    """Return axes that nothing is known of, but for the images on the first of them."""
    roles: list[PartRole] = [
        "images" if images and place == 0 else "lost" for place in range(len(shape))
    ]
    return Axes(tuple((Part(role, size),) for role, size in zip(roles, shape, strict=True)))


def resized(axis: Axis, size: int, *, channels: bool) -> Axis:
    """Return an axis with another length, whose parts keep their role where they have one."""
    if length(axis) == size:
        return axis
    roles = {part.role for part in axis}
    if roles <= {"positions"} or (roles == {"channels"} and channels):
        return (Part(roles.pop() if roles else "positions", size),)
    return (Part("lost", size),)


def _without_channels(axis: Axis, size: int) -> Axis:
    """Return an axis beside that of new features: what are not images are positions."""
    if length(axis) != size:
        known = not any(part.role == "images" for part in axis)
        return (Part("positions" if known else "lost", size),)
    parts = (p if p.role == "images" else Part("positions", p.size) for p in axis)
    return tuple(_joined(parts))


def _joined(parts: Iterable[Part]) -> Iterable[Part]:
    """Return parts with neighbours of one role joined."""
    held: Part | None = None
    for part in parts:
        if held is not None and held.role == part.role:
            held = replace(held, size=held.size * part.size)
            continue
        if held is not None:
            yield held
        held = part
    if held is not None:
        yield held


def _taken(left: list[Part], size: int) -> Axis:
    """Remove the parts of an axis of a given length from the front of those that are left."""
    taken: list[Part] = []
    if size == 1:
        # A single image may stand anywhere.
        alone = (i for i, p in enumerate(left) if p.size == 1 and (i == 0 or p.role == "images"))
        return () if (place := next(alone, None)) is None else (left.pop(place),)
    while size > 1:
        first = left[0]
        if size % first.size == 0:
            taken.append(left.pop(0))
            size //= first.size
        elif first.size % size == 0:
            taken.append(replace(first, size=size))
            left[0] = replace(first, size=first.size // size)
            size = 1
        else:
            left[:2] = [Part("lost", first.size * left[1].size)]
    return tuple(_joined(taken))


def _is_plain(axis: Axis) -> bool:
    """Return whether an axis has one role, or images with positions behind them."""
    return len(axis) < 2 or [part.role for part in axis] == ["images", "positions"]


def _text(axis: Axis) -> str:
    if len(axis) < 2:
        return _LETTERS[axis[0].role] if axis else "*"
    held = ("images", "channels")
    return "".join(_LETTERS[p.role] + ("" if p.role in held else str(p.size)) for p in axis)
