"""Recurrent layers: their gates run inside one kernel, and their results have followed axes.

A layer is one opaque map: each row of the batch is mapped by itself, from a sequence of positions
to one of as many positions with new channels. What it computes inside, its sigmoids and tanhs,
cannot be watched without computing it in another way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from survey.capture.arguments import argument
from survey.capture.axes import Axes, Axis, lost
from survey.capture.axis_origins import TensorFunction, named

#: The activations inside of each.
RECURRENT: dict[TensorFunction, tuple[str, ...]] = {
    function: gates
    for name, gates in {
        "lstm": ("sigmoid", "tanh"),
        "gru": ("sigmoid", "tanh"),
        "rnn_tanh": ("tanh",),
        "rnn_relu": ("relu",),
    }.items()
    for function in named(name, f"{name}_cell")
}

#: Why none of them is a site.
FUSED = "inside of a recurrent layer's kernel, where nothing can be watched"

_CELLS = named(*(f"{name}_cell" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")))


def recurrent_axes(
    function: TensorFunction,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    moving: list[tuple[torch.Tensor, Axes]],
    results: Sequence[torch.Tensor],
) -> list[Axes]:
    """Return the axes of the results of a recurrent layer or cell: of its output, and its states.

    Parameters
    ----------
    function : callable
        One of ``RECURRENT``.
    args, kwargs
        Its arguments.
    moving : list of tuple
        Those of its tensors that depend on the images, each with its axes.
    results : sequence of torch.Tensor
        The output first, then the last states; of a cell the states.
    """
    values: Any = args[0] if args else kwargs.get("input")
    axes = next((axes for tensor, axes in moving if tensor is values), None)
    first = argument(args, kwargs, 8, "batch_first")
    cell = function in _CELLS
    batch, state = (0, 0) if cell else (0 if first else 1, 1)
    others = [held for tensor, held in moving if tensor is not values]
    # A packed sequence has two axes, the first of which runs over images and positions mixed.
    known = axes is not None and axes.fits(values.shape) and values.ndim == (2 if cell else 3)
    if (
        axes is None
        or not known
        or axes.holding("images") != [batch]
        or not all(_of_same_rows(held, state, axes.each[batch]) for held in others)
    ):
        return [lost(result.shape) for result in results]
    last = values.ndim - 1
    states = (*lost(results[-1].shape).each[:state], axes.each[batch], ())
    return [
        (axes if place == 0 and not cell else Axes(states)).with_channels(last, result.shape)
        for place, result in enumerate(results)
    ]


def _of_same_rows(held: Axes, place: int, rows: Axis) -> bool:
    """Return whether states or weights are those of the same row of the batch, or of all alike."""
    if held.same_for_all_images():
        return True
    rest = Axes((*held.each[:place], *held.each[place + 1 :]))
    return held.each[place : place + 1] == (rows,) and rest.same_for_all_images()
