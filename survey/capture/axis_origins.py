"""The origins of a result's axes among those of the argument, for calls that move or drop axes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.nn import functional

#: A function or method as a torch function mode sees it.
TensorFunction = Callable[..., Any]
#: For each new axis, the old axis it was; None for one that was not there before.
Origins = list[int | None]


def named(*names: str) -> frozenset[TensorFunction]:
    """Return the functions and tensor methods of torch with one of these names."""
    owners = (functional, torch, torch.linalg, torch.Tensor)
    return frozenset(
        getattr(owner, name) for owner in owners for name in names if hasattr(owner, name)
    )


PERMUTATIONS = named(
    "permute", "transpose", "swapaxes", "swapdims", "transpose_", "swapaxes_", "swapdims_", "t",
    "t_", "adjoint", "movedim", "moveaxis",
) | {
    inspect.getattr_static(torch.Tensor, name).__get__ for name in ("T", "mT", "H", "mH")
}  # fmt: skip
_STACKS = named("stack", "unsqueeze")
#: Calls that reduce whole axes to one value.
REDUCTIONS = named(
    "mean", "sum", "amax", "amin", "nanmean", "nansum", "std", "var", "max", "min", "median",
    "prod", "logsumexp", "norm", "vector_norm", "all", "any", "argmax", "argmin",
)  # fmt: skip
_DROPS = named("select", "unbind")

#: Calls that return the tensor they were given, with its axes moved.
MOVES_IN_PLACE = named("transpose_", "swapaxes_", "swapdims_", "t_")


def origins_of(
    function: TensorFunction,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    lead: torch.Tensor,
    result: torch.Tensor,
) -> Origins | None:
    """Return the argument's axis for each axis of the result; None for a call of another kind.

    Parameters
    ----------
    function : callable
        What was called.
    args, kwargs
        Its arguments.
    lead : torch.Tensor
        The argument whose axes are followed.
    result : torch.Tensor
        What came out.
    """
    axes: Origins = list(range(lead.ndim))
    reduced = function in REDUCTIONS and result.ndim < lead.ndim
    if reduced or function in PERMUTATIONS:
        return _tried(function, args, kwargs, lead)
    if function in _STACKS:
        axes.insert(_axis(args, kwargs, 1, lead.ndim + 1), None)
        return axes
    if function is torch.Tensor.unfold:
        return [*axes, None]
    if function in _DROPS:
        del axes[_axis(args, kwargs, 1, lead.ndim)]
        return axes
    return indexed(args[1], axes) if function is torch.Tensor.__getitem__ else None


def indexed(index: Any, axes: Origins) -> Origins | None:
    """Return the axes that basic indexing leaves; None for an index with a tensor or a list."""
    items = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(item, (torch.Tensor, list, bool)) for item in items):
        return None
    used = sum(item is not None and item is not Ellipsis for item in items)
    if Ellipsis in items:
        at = items.index(Ellipsis)
        items[at : at + 1] = [slice(None)] * (len(axes) - used)
    consumed = sum(item is not None for item in items)
    return [*_kept(items, axes), *axes[consumed:]]


def _kept(items: list[Any], axes: Origins) -> Iterator[int | None]:
    position = 0
    for item in items:
        if item is None:
            yield None
            continue
        if isinstance(item, slice):
            yield axes[position]
        position += 1


def _tried(
    function: TensorFunction, args: Sequence[Any], kwargs: dict[str, Any], lead: torch.Tensor
) -> Origins:
    """Return the origins of the axes of a call's result, tried on a tensor of distinct sizes."""
    probe = torch.zeros(tuple(range(2, 2 + lead.ndim)))
    options = {name: probe if value is lead else value for name, value in kwargs.items()}
    options.pop("out", None)
    moved = function(*(probe if value is lead else value for value in args), **options)
    shape = (moved if isinstance(moved, torch.Tensor) else moved[0]).shape
    return [size - 2 for size in shape]


def _axis(args: Sequence[Any], kwargs: dict[str, Any], place: int, ndim: int) -> int:
    axis = kwargs.get("dim", kwargs.get("axis", args[place] if len(args) > place else 0))
    return axis % ndim if isinstance(axis, int) and ndim else 0
