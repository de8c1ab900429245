"""The axes of matrix products and Einstein sums, which come from both of their factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import torch

from survey.capture.axes import Axes, Axis, Part, PartRole, length, lost

#: Of two factors' axes that are multiplied along each other, the first of these roles stays. They
#: are the same axis, so that it is enough if one of the factors tells.
_PRECEDENCE: tuple[PartRole, ...] = ("images", "channels", "lost", "positions")

#: How torch calls the factors of products of matrices, addends before them, in their order.
_NAMES = ("input", "mat1", "batch1", "other", "mat2", "batch2", "vec")


def factors_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the two factors of a product of matrices, given by their places or their names."""
    *_, first, second = (*args, *(kwargs[name] for name in _NAMES if name in kwargs))
    return first, second


def product_axes(
    first: torch.Tensor,
    left: Axes | None,
    second: torch.Tensor,
    right: Axes | None,
    shape: tuple[int, ...],
) -> Axes:
    """Return the axes of a matrix product: rows of the first factor, columns of the second.

    Parameters
    ----------
    first, second : torch.Tensor
        The factors.
    left, right : Axes or None
        Their axes; None where they are not known.
    shape : tuple of int
        Of the product.

    Notes
    -----
    Weights from the right make channels of the last axis, as a linear layer does. Weights from the
    left make channels where channels are summed over, and positions where positions are.
    """
    if left is None or right is None:
        return lost(shape)
    if right.constant and second.ndim > 1:
        whole = Axes(_filled(left.each, shape))
        return whole.with_channels(len(shape) - 1, shape)
    # The axes before those of the matrices.
    batch = _batch(left.each[:-2], right.each[:-2])
    rows: list[Axis] = []
    if first.ndim > 1:
        rows = [_summed(right, first.shape[-2]) if left.constant else left.each[-2]]
    columns = [] if right.constant or second.ndim < 2 else [right.each[-1]]
    return Axes(_filled((*batch, *rows, *columns), shape))


def einsum_axes(equation: object, operands: Sequence[Axes | None], shape: tuple[int, ...]) -> Axes:
    """Return the axes of an Einstein sum that names all axes; lost ones for any other.

    Parameters
    ----------
    equation : str
        Such as ``nhqd,nhkd->nhqk``.
    operands : sequence of Axes
        Of the factors.
    shape : tuple of int
        Of the sum.
    """
    text = equation.replace(" ", "") if isinstance(equation, str) else ""
    terms, arrow, out = text.partition("->")
    if not arrow or "." in text or None in operands:
        return lost(shape)
    moving: dict[str, Axis] = {}
    for term, axes in zip(terms.split(","), operands, strict=True):
        if axes is not None and not axes.constant:
            for letter, axis in zip(term, axes.each, strict=True):
                moving[letter] = min(axis, moving.get(letter, axis), key=_precedence)
    summed = {part.role for letter in moving if letter not in out for part in moving[letter]}
    # Channels that were summed over live on in the axes that the weights bring.
    brought: PartRole = "channels" if "channels" in summed else "positions"
    sizes = zip(out, shape, strict=True)
    return Axes(
        _filled([moving.get(letter, (Part(brought, size),)) for letter, size in sizes], shape)
    )


def _batch(left: Sequence[Axis], right: Sequence[Axis]) -> tuple[Axis, ...]:
    """Return the axes that two factors run over together, aligned from the right."""
    pairs = list(zip_longest(reversed(left), reversed(right), fillvalue=()))
    longest = (max(pair, key=lambda axis: (length(axis), -_precedence(axis))) for pair in pairs)
    return tuple(longest)[::-1]


def _summed(right: Axes, size: int) -> Axis:
    """Return the axis of rows that weights make of the axis that they are summed along."""
    roles = {part.role for part in right.each[-2 if len(right.each) > 1 else -1]}
    if roles & {"images", "lost"}:
        return (Part("lost", size),)
    return (Part("channels" if "channels" in roles else "positions", size),)


def _precedence(axis: Axis) -> int:
    return min((_PRECEDENCE.index(part.role) for part in axis), default=len(_PRECEDENCE))


def _filled(axes: Sequence[Axis], shape: tuple[int, ...]) -> tuple[Axis, ...]:
    """Return axes of a shape: weights' own in front, and lost ones where lengths differ."""
    missing = len(shape) - len(axes)
    whole = [*((Part("positions", size),) for size in shape[: max(missing, 0)]), *axes]
    if missing < 0:
        return lost(shape).each
    return tuple(
        axis if length(axis) == size else (Part("positions" if not axis else "lost", size),)
        for axis, size in zip(whole, shape, strict=True)
    )
