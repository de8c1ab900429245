"""The breakpoints of each call that is piecewise linear: where its units change their piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from survey.capture.activations import activation_called
from survey.capture.arguments import argument
from survey.capture.axis_origins import named
from survey.capture.elementwise import ELEMENTWISE
from survey.regions.bends import Bend, Signs, Winners
from survey.regions.pooling_windows import MAX_POOLS, largest_along, windows

#: Comparisons, whose results are the same between breakpoints.
_COMPARISONS = {
    "gt", "ge", "lt", "le", "eq", "ne", "greater", "greater_equal", "less", "less_equal",
    "not_equal",
}  # fmt: skip

#: Calls of two arguments, whose results change where these are equal.
_PAIRED = _COMPARISONS | {"maximum", "minimum", "fmax", "fmin"}

#: Calls whose results are steps: the same between breakpoints.
STEPS = frozenset(
    function
    for function, (name, _) in ELEMENTWISE.items()
    if name in _COMPARISONS or name in ("sign", "sgn")
)

_LARGEST = named("max", "amax", "argmax")
_SMALLEST = named("min", "amin", "argmin")

#: The breakpoints of activations with fixed ones.
_FIXED: dict[str, tuple[float, ...]] = {
    "relu": (0.0,), "leaky_relu": (0.0,), "prelu": (0.0,), "rrelu": (0.0,), "abs": (0.0,),
    "sign": (0.0,), "sgn": (0.0,), "relu6": (0.0, 6.0), "hardsigmoid": (-3.0, 3.0),
}  # fmt: skip


def bends_of(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], points: int
) -> list[Bend] | None:
    """Return the units of a piecewise linear call; None if the call is none that is known.

    Parameters
    ----------
    function : callable
        What is about to be called.
    args, kwargs
        Its arguments.
    points : int
        Inputs in the pass, which the first axis runs over.
    """
    if function in MAX_POOLS:
        return [Winners(_by_point(windows(function, args, kwargs), points, 1))]
    values = args[0] if args else kwargs.get("input", kwargs.get("self"))
    if (along := _extreme(function, values, args, kwargs)) is not None:
        return [Winners(_by_point(along, points, 1))]
    name = activation_called(function) or ELEMENTWISE.get(function, ("", None))[0]
    if name in _PAIRED:
        other = argument(args, kwargs, 1, "other")
        return None if other is None else [Signs(_by_point(values - other, points, 0))]
    bounds = _bounds(name, args, kwargs)
    if bounds is None or not isinstance(values, torch.Tensor):
        return None
    return [Signs(_by_point(values - bound, points, 0)) for bound in bounds]


def _extreme(
    function: Callable[..., Any], values: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> torch.Tensor | None:
    """Return what an extreme along axes is the largest of; None if the call is none."""
    if function not in _LARGEST | _SMALLEST or not isinstance(values, torch.Tensor):
        return None
    axes = argument(args, kwargs, 1, "dim", kwargs.get("axis"))
    known = isinstance(axes, int) or (isinstance(axes, (tuple, list)) and len(axes) > 0)
    if not known or isinstance(axes, bool):
        return None
    return largest_along(values if function in _LARGEST else -values, axes)


def _bounds(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Sequence[Any] | None:
    """Return the breakpoints of an elementwise call; None if it is not piecewise linear."""
    if name == "rrelu" and argument(args, kwargs, 3, "training", False):
        return None
    if name in _FIXED:
        return _FIXED[name]
    if name == "hardtanh":
        low = argument(args, kwargs, 1, "min_val", -1.0)
        return low, argument(args, kwargs, 2, "max_val", 1.0)
    if name == "softshrink":
        width = argument(args, kwargs, 1, "lambd", 0.5)
        return -width, width
    if name == "threshold":
        at, below = argument(args, kwargs, 1, "threshold"), argument(args, kwargs, 2, "value")
        return (at,) if at == below else None
    if name in ("clamp", "clamp_min", "clamp_max"):
        ends = ("max",) if name == "clamp_max" else ("min", "max")
        each = [argument(args, kwargs, place, end) for place, end in enumerate(ends, start=1)]
        return [bound for bound in each if bound is not None]
    return None


def _by_point(values: torch.Tensor, points: int, kept: int) -> torch.Tensor:
    """Return values as points x units, with so many axes kept behind.

    Raises
    ------
    ValueError
        If the first axis does not run over the points.
    """
    if not values.ndim or values.shape[0] % points:
        raise ValueError("takes values whose first axis does not run over the inputs")
    behind = values.shape[values.ndim - kept :]
    return values.reshape(points, -1, *behind)
