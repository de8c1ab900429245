"""The windows of max-pooling: which positions each of its results is the largest of."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from survey.capture.axis_origins import named

_SIZES = "123"
#: Of what follows the values, those that say where windows are.
_OPTIONS = ("kernel_size", "stride", "padding", "dilation")
_POOLS = named(
    *(f"max_pool{n}d{ending}" for n in _SIZES for ending in ("", "_with_indices")),
)
_ADAPTIVE = named(
    *(f"adaptive_max_pool{n}d{ending}" for n in _SIZES for ending in ("", "_with_indices")),
)
MAX_POOLS = _POOLS | _ADAPTIVE


def windows(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> torch.Tensor:
    """Return the values that each result of a max-pooling is the largest of.

    Parameters
    ----------
    function : callable
        One of ``MAX_POOLS``.
    args, kwargs
        Its arguments.

    Returns
    -------
    torch.Tensor
        ... x results x k, where ... are the axes before those that are pooled. A window that
        reaches over the edge is filled up with a value that is below all others.
    """
    values = args[0] if args else kwargs["input"]
    axes = int(re.findall("[123](?=d)", function.__name__)[0])
    rest = {name: value for name, value in kwargs.items() if name != "input"}
    made = function(values[:1].to("meta"), *args[1:], **rest)
    sizes = (made if isinstance(made, torch.Tensor) else made[0]).shape[-axes:]
    lengths = values.shape[-axes:]
    if function in _ADAPTIVE:
        each = [_shared(*pair) for pair in zip(lengths, sizes, strict=True)]
    else:
        named_args = dict(zip(_OPTIONS, args[1:], strict=False))
        each = _strided(lengths, sizes, {**rest, **named_args})
    below = 2 * values.amin() - values.amax()
    flat = torch.cat([values.flatten(-axes), below.expand(*values.shape[:-axes], 1)], -1)
    return flat[..., _together(each, lengths)]


def _strided(
    lengths: Sequence[int], sizes: Sequence[int], options: dict[str, Any]
) -> list[torch.Tensor]:
    """Return for each axis the positions in each window, results x k; -1 for those outside."""
    kernel = _of_each(options["kernel_size"], len(lengths))
    stride = _of_each(options.get("stride") or kernel, len(lengths))
    padding = _of_each(options.get("padding", 0), len(lengths))
    dilation = _of_each(options.get("dilation", 1), len(lengths))
    made = []
    for axis, length in enumerate(lengths):
        starts = torch.arange(sizes[axis])[:, None] * stride[axis] - padding[axis]
        places = starts + dilation[axis] * torch.arange(kernel[axis])
        made.append(places.where((places >= 0) & (places < length), -1))
    return made


def _shared(length: int, size: int) -> torch.Tensor:
    """Return the positions in each of the windows that an adaptive pooling divides an axis into."""
    starts = torch.arange(size) * length // size
    ends = -(-torch.arange(1, size + 1) * length // size)
    places = starts[:, None] + torch.arange(int((ends - starts).max()))
    return places.where(places < ends[:, None], -1)


def _together(each: Sequence[torch.Tensor], lengths: Sequence[int]) -> torch.Tensor:
    """Return the flat positions in windows along several axes; -1 for those outside."""
    flat = torch.zeros(1, 1, dtype=torch.long)
    for places, length in zip(each, lengths, strict=True):
        outer, inner = flat[:, None, :, None], places[None, :, None, :]
        inside = (outer >= 0) & (inner >= 0)
        made = (outer * length + inner).where(inside, -1)
        flat = made.reshape(made.shape[0] * made.shape[1], -1)
    return flat


def _of_each(value: Any, axes: int) -> Sequence[int]:
    return [value] * axes if isinstance(value, int) else list(value) * (axes // len(value))


def largest_along(values: torch.Tensor, axes: Any) -> torch.Tensor:
    """Return the values that each result of a maximum along axes is the largest of.

    Parameters
    ----------
    values : torch.Tensor
        The maximum's argument.
    axes : int or sequence of int
        The axes that it is taken along.

    Returns
    -------
    torch.Tensor
        The other axes, and one of the values.
    """
    gone = [axis % values.ndim for axis in ([axes] if isinstance(axes, int) else axes)]
    kept = [axis for axis in range(values.ndim) if axis not in gone]
    moved = values.permute(*kept, *gone)
    return moved.reshape(*moved.shape[: len(kept)], math.prod(moved.shape[len(kept) :]))
