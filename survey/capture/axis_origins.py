"""Which old axis each axis of a call's result came from, for calls that move or drop axes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.nn import functional

_TensorFunction = Callable[..., Any]
#: For each new axis, the old axis it was; None for one that was not there before.
Origins = list[int | None]


def named(*names: str) -> frozenset[_TensorFunction]:
    """Return the functions and tensor methods of torch that have one of these names."""
    owners = (functional, torch, torch.linalg, torch.Tensor)
    return frozenset(
        getattr(owner, name) for owner in owners for name in names if hasattr(owner, name)
    )


_PERMUTES = named("permute")
_TRANSPOSES = named("transpose", "swapaxes", "swapdims", "transpose_", "swapaxes_", "swapdims_")
_FLIPS = named("t", "t_", "adjoint") | {
    inspect.getattr_static(torch.Tensor, name).__get__ for name in ("T", "mT", "H", "mH")
}
_MOVES = named("movedim", "moveaxis")
_STACKS = named("stack")
_REDUCTIONS = named(
    "mean", "sum", "amax", "amin", "nanmean", "nansum", "std", "var", "max", "min", "median",
    "prod", "logsumexp", "norm", "vector_norm", "all", "any", "argmax", "argmin",
)  # fmt: skip
#: Those that have the kind of norm where the others have the axes.
_NORMS = named("norm", "vector_norm")
_DROPS = named("select", "unbind")

#: Calls that return the tensor they were given, with its axes moved.
MOVES_IN_PLACE = named("transpose_", "swapaxes_", "swapdims_", "t_")


def origins_of(
    function: _TensorFunction,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    lead: torch.Tensor,
    result: torch.Tensor,
) -> Origins | None:
    """Return the old axis of each new one; None where the call is not of this kind.

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
    if function in _PERMUTES:
        order = kwargs.get("dims", args[1:])
        order = order[0] if len(order) == 1 and not isinstance(order[0], int) else order
        return [axes[i] for i in order]
    if function in _TRANSPOSES:
        first, second = _pair(args, kwargs)
        axes[first], axes[second] = axes[second], axes[first]
        return axes
    if function in _FLIPS:
        axes[-2:] = axes[:-3:-1]
        return axes
    if function in _MOVES:
        return _shifted(args, kwargs, axes)
    if function in _STACKS:
        axes.insert(_axis(args, kwargs, 1, lead.ndim + 1) or 0, None)
        return axes
    if function in _DROPS:
        del axes[_axis(args, kwargs, 1, lead.ndim) or 0]
        return axes
    if function in _REDUCTIONS and result.ndim < lead.ndim:
        return _reduced(function, args, kwargs, axes)
    return indexed(args[1], axes) if function is torch.Tensor.__getitem__ else None


def indexed(index: Any, axes: Origins) -> Origins | None:
    """Return the axes that are left by basic indexing; None where a tensor or list indexes."""
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


def _pair(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[int, int]:
    first = kwargs.get("dim0", kwargs.get("axis0", args[1] if len(args) > 1 else 0))
    second = kwargs.get("dim1", kwargs.get("axis1", args[2] if len(args) > 2 else 1))
    return first, second


def _shifted(args: Sequence[Any], kwargs: dict[str, Any], axes: Origins) -> Origins:
    source = kwargs.get("source", args[1] if len(args) > 1 else 0)
    target = kwargs.get("destination", args[2] if len(args) > 2 else 0)
    sources = [source] if isinstance(source, int) else list(source)
    targets = [target] if isinstance(target, int) else list(target)
    goes = {t % len(axes): s % len(axes) for s, t in zip(sources, targets, strict=True)}
    others = iter([axis for axis in range(len(axes)) if axis not in goes.values()])
    return [goes[place] if place in goes else next(others) for place in range(len(axes))]


def _reduced(
    function: _TensorFunction, args: Sequence[Any], kwargs: dict[str, Any], axes: Origins
) -> Origins | None:
    place = 2 if function in _NORMS else 1
    dims = kwargs.get("dim", kwargs.get("axis", args[place] if len(args) > place else None))
    if isinstance(dims, int):
        dims = [dims]
    if not isinstance(dims, (list, tuple)):
        return None
    gone = {axis % len(axes) for axis in dims}
    return [axis for axis in axes if axis not in gone]


def _axis(args: Sequence[Any], kwargs: dict[str, Any], place: int, ndim: int) -> int | None:
    axis = kwargs.get("dim", kwargs.get("axis", args[place] if len(args) > place else 0))
    return axis % ndim if isinstance(axis, int) and ndim else None
