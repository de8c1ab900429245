"""Layouts: the axes of every tensor of a pass, followed from call to call.

What axes hold is read off the operation that produced a tensor (a convolution puts channels on axis
1, a linear layer on the last one) and followed through permutes, reshapes, indexing, reductions
and products, never guessed from the number of dimensions. Tensors that do not depend on the
network's input, such as a position bias, are known as constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from survey.capture.arguments import tensors_in, tensors_read
from survey.capture.axes import Axes, Axis, Part, length, lost, resized
from survey.capture.axis_origins import (
    MOVES_IN_PLACE,
    REDUCTIONS,
    Origins,
    TensorFunction,
    indexed,
    named,
    origins_of,
)
from survey.capture.features import AXIS_LAST, AXIS_ONE, feature_axes
from survey.capture.products import einsum_axes, factors_of, product_axes
from survey.capture.recurrent import RECURRENT, recurrent_axes

#: The layout of tensors that do not depend on the network's input.
CONSTANT = Axes((), constant=True)

#: Prefix of the attributes that a pass gives to tensors.
MARK = "_survey"

_LAYOUT = f"{MARK}_layout"


def layout_of(tensor: torch.Tensor) -> Axes | None:
    """Return a tensor's layout; None if its origin is not known."""
    layout: Axes | None = getattr(tensor, _LAYOUT, None)
    # Parameters are not marked; to ask whether one is takes longest.
    return CONSTANT if layout is None and isinstance(tensor, nn.Parameter) else layout


def mark(tensor: torch.Tensor, layout: Axes) -> None:
    """Attach a layout to a tensor; parameters are constant and left unmarked."""
    if isinstance(tensor, nn.Parameter):
        return
    setattr(tensor, _LAYOUT, layout)


def unmark(tensor: torch.Tensor) -> None:
    """Remove the attributes that a pass gave to a tensor."""
    for name in [name for name in vars(tensor) if name.startswith(MARK)]:
        delattr(tensor, name)


def input_layout(images: torch.Tensor) -> Axes:
    """Return the layout of a network's input: images first, then channels."""
    unknown = lost(images.shape, images=True)
    return unknown.with_channels(1, images.shape) if images.ndim in (2, 4, 5) else unknown


def follow(function: TensorFunction, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> None:
    """Mark the tensors that a call returned with their layouts.

    Parameters
    ----------
    function : callable
        What was called, as a torch function mode sees it.
    args, kwargs
        Its arguments.
    out
        Its result: tensors in it are marked.
    """
    if function is torch.Tensor.__setitem__:
        _written(*args)
        return
    results = tensors_in(out)
    # Numbers that left torch and came back may well be the images': they stay unknown.
    if not results or function in FROM_DATA:
        return
    inputs = tensors_read(function, args, kwargs)
    known = [(t, layout) for t in inputs if (layout := layout_of(t)) is not None]
    moving = [(t, layout) for t, layout in known if layout != CONSTANT]
    if function in BLANKS or (not moving and len(known) == len(inputs)):
        for result in results:
            mark(result, CONSTANT)
    elif function in RECURRENT:
        made = recurrent_axes(function, args, kwargs, moving, results)
        for result, axes in zip(results, made, strict=True):
            mark(result, axes)
    elif moving:
        _mark_derived(function, args, kwargs, moving, results)


def _mark_derived(
    function: TensorFunction,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    moving: list[tuple[torch.Tensor, Axes]],
    results: list[torch.Tensor],
) -> None:
    # An in-place call returns the very tensor it was given: its layout is already right, unless
    # the call is one that moves axes.
    lead, axes = max(moving, key=lambda pair: (pair[0].ndim, pair[0].numel()))
    for result in results:
        same = any(result is tensor for tensor, _ in moving)
        if same and function not in AXIS_ONE | _MIXES | MOVES_IN_PLACE:
            continue
        mark(result, _derive(function, args, kwargs, lead, axes, moving, result))


def _derive(
    function: TensorFunction,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    lead: torch.Tensor,
    axes: Axes,
    moving: list[tuple[torch.Tensor, Axes]],
    result: torch.Tensor,
) -> Axes:
    shape = tuple(result.shape)
    if function in AXIS_ONE | AXIS_LAST:
        return feature_axes(function, args, kwargs, moving, shape)
    if not axes.fits(lead.shape):
        return lost(shape)
    if function in _PRODUCTS | _EINSUMS | _MIXES:
        return _mixed(function, args, kwargs, shape)
    origins = origins_of(function, args, kwargs, lead, result)
    if origins is not None and len(origins) == result.ndim:
        return _moved(function, axes, origins, shape)
    if function in RESHAPES:
        return axes.regrouped(shape)
    if result.ndim == lead.ndim:
        return _same_axes(function, axes, moving, shape)
    # Broadcasting aligns axes from the right: where the rank rises, equal sizes in front would be
    # a coincidence.
    leading = 0 < result.ndim < lead.ndim and shape[0] == lead.shape[0]
    return Axes((axes.each[0], *lost(shape).each[1:])) if leading else lost(shape)


def _mixed(
    function: TensorFunction, args: Sequence[Any], kwargs: dict[str, Any], shape: tuple[int, ...]
) -> Axes:
    """Return the layout after a call that sums over axes of several tensors."""
    if function in _PRODUCTS:
        if function in _ATTENTIONS:
            # A mask comes after the factors.
            first, second = [*tensors_in(args), *tensors_in(kwargs)][:3:2]
        else:
            first, second = factors_of(args, kwargs)
        return product_axes(first, layout_of(first), second, layout_of(second), shape)
    if function in _EINSUMS:
        return einsum_axes(args[0], [layout_of(tensor) for tensor in tensors_in(args[1:])], shape)
    return lost(shape)


def _moved(function: TensorFunction, axes: Axes, origins: Origins, shape: tuple[int, ...]) -> Axes:
    def axis(origin: int | None, size: int) -> Axis:
        if origin is None:
            return (Part("positions", size),)
        return resized(axes.each[origin], size, channels=function in _RESIZES)

    return Axes(tuple(map(axis, origins, shape)))


def _same_axes(
    function: TensorFunction,
    axes: Axes,
    moving: list[tuple[torch.Tensor, Axes]],
    shape: tuple[int, ...],
) -> Axes:
    """Return the layout after an elementwise, pooling, reducing or joining call."""
    if function in REDUCTIONS:
        pairs = zip(axes.each, shape, strict=True)
        return Axes(tuple(axis if length(axis) == size else () for axis, size in pairs))
    known = bool(axes.holding("channels"))
    result = []
    for place, (axis, size) in enumerate(zip(axes.each, shape, strict=True), start=-len(shape)):
        if length(axis) == 1 != size and not any(part.role == "images" for part in axis):
            result.append(_spread(function, axis, place, size, moving, known=known))
        else:
            result.append(resized(axis, size, channels=function in _RESIZES))
    return Axes(tuple(result))


def _spread(
    function: TensorFunction,
    axis: Axis,
    place: int,
    size: int,
    moving: list[tuple[torch.Tensor, Axes]],
    *,
    known: bool,
) -> Axis:
    """Return an axis of length 1 that became longer: by another tensor's, or by new features."""
    if function in _EXPANDS:
        return (Part("positions", size),)
    others = (axes.each[place] for tensor, axes in moving if tensor.ndim >= -place)
    if (other := next((o for o in others if length(o) == size), None)) is not None:
        return other
    # The only channel becomes several; a tensor without channels gets them.
    features = any(part.role == "channels" for part in axis) or not known
    return (Part("channels" if features else "positions", size),)


def _written(target: torch.Tensor, index: Any, value: Any) -> None:
    """Mark a tensor of unknown or constant layout into which marked values were written."""
    layout = layout_of(value) if isinstance(value, torch.Tensor) else None
    if layout is None or layout == CONSTANT or layout_of(target) not in (None, CONSTANT):
        return
    axes: Origins = list(range(target.ndim))
    origins = indexed(index, axes)
    places = [axis for axis in origins or () if axis is not None]
    if len(places) != value.ndim or not layout.fits(value.shape):
        mark(target, lost(target.shape))
        return
    made: list[Axis] = [(Part("positions", size),) for size in target.shape]
    for place, axis in zip(places, layout.each, strict=True):
        made[place] = resized(axis, target.shape[place], channels=True)
    mark(target, Axes(tuple(made)))


#: Calls whose result may share the memory of data from outside of torch.
FROM_DATA = named("tensor", "as_tensor", "asarray", "from_numpy", "frombuffer")
#: Calls that take only the shape and type of the tensor they are given.
BLANKS = named(
    "new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "zeros_like", "ones_like",
    "empty_like", "full_like", "rand_like", "randn_like",
)  # fmt: skip
RESHAPES = named(
    "reshape", "view", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as", "reshape_as",
    "ravel",
)  # fmt: skip
_PRODUCTS = named(
    "matmul", "__matmul__", "bmm", "mm", "addmm", "baddbmm", "scaled_dot_product_attention",
)  # fmt: skip
_ATTENTIONS = named("scaled_dot_product_attention")
_EINSUMS = named("einsum")
#: Calls whose result may have its operand's shape though its axes mean something else.
_MIXES = named(
    "tensordot", "cdist", "inner", "outer", "kron", "cov", "corrcoef", "rot90", "as_strided",
    "addbmm", "squeeze_", "unsqueeze_", "resize_", "as_strided_", "set_", "pinverse", "inverse",
)  # fmt: skip
#: Calls that keep what the axes mean though they may change the number of channels.
_RESIZES = named(
    "cat", "concat", "concatenate", "chunk", "split", "tensor_split", "narrow", "pad", "glu",
    "__getitem__", "expand", "repeat",
)  # fmt: skip
#: Calls that repeat what there is along an axis.
_EXPANDS = named("expand", "expand_as", "broadcast_to", "repeat", "tile", "pad", "interpolate")
