"""Layouts: which axes of a tensor hold the images and the channels.

A layout is read off the operation that produced a tensor (a convolution puts channels on axis
1, a linear layer on the last one) and followed through permutes, reshapes, indexing and
reductions, never guessed from the number of dimensions. Tensors that do not depend on the
network's input, such as a position bias, are known as constant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from survey.capture.axis_origins import (
    MOVES_IN_PLACE,
    Origins,
    TensorFunction,
    indexed,
    named,
    origins_of,
)


@dataclass(frozen=True, slots=True)
class Layout:
    """The axes of one tensor that hold the images and the channels.

    Parameters
    ----------
    images : int or None
        Axis whose slowest-moving part runs over images; None if that was lost.
    channels : tuple of int
        Axes that together hold the channels, ascending: one, or several after a split into
        heads or groups; empty if that was lost.
    """

    images: int | None
    channels: tuple[int, ...]

    def describe(self, shape: Sequence[int], count: int) -> str:
        """Return the axes as text, such as ``N,C,*,*`` or ``N*4,*,C`` for folded batches."""
        names = ["*"] * len(shape)
        if self.images is not None and count:
            fold = shape[self.images] // count
            names[self.images] = "N" if fold == 1 else f"N*{fold}"
        for axis in self.channels:
            names[axis] = "C"
        return ",".join(names)

    def spatial(self, shape: Sequence[int]) -> str:
        """Return the sizes of all other axes, such as ``56x56``; empty where there are none."""
        held = (self.images, *self.channels)
        return "x".join(str(size) for axis, size in enumerate(shape) if axis not in held)


#: The layout of tensors that do not depend on the network's input.
CONSTANT = Layout(None, (-1,))

#: Prefix of the attributes that a pass gives to tensors.
MARK = "_survey"

_LAYOUT = f"{MARK}_layout"


def layout_of(tensor: torch.Tensor) -> Layout | None:
    """Return a tensor's layout; None if its origin is not known."""
    if isinstance(tensor, nn.Parameter):
        return CONSTANT
    layout: Layout | None = getattr(tensor, _LAYOUT, None)
    return layout


def mark(tensor: torch.Tensor, layout: Layout) -> None:
    """Attach a layout to a tensor; parameters are constant and left unmarked."""
    if isinstance(tensor, nn.Parameter):
        return
    setattr(tensor, _LAYOUT, layout)


def unmark(tensor: torch.Tensor) -> None:
    """Remove the attributes that a pass gave to a tensor."""
    for name in [name for name in vars(tensor) if name.startswith(MARK)]:
        delattr(tensor, name)


def input_layout(images: torch.Tensor) -> Layout:
    """Return the layout of a network's input: images first, then channels."""
    return Layout(0, (1,) if images.ndim in (2, 4, 5) else ())


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
    results = list(tensors_in(out))
    # Numbers that left torch and came back may well be the images': they stay unknown.
    if not results or function in _FROM_DATA:
        return
    if function in _BLANKS:
        for result in results:
            mark(result, CONSTANT)
        return
    inputs = [*tensors_in(args), *tensors_in(kwargs)]
    known = [(t, layout) for t in inputs if (layout := layout_of(t)) is not None]
    moving = [(t, layout) for t, layout in known if layout != CONSTANT]
    if not moving:
        if len(known) == len(inputs):
            for result in results:
                mark(result, CONSTANT)
        return
    # An in-place call returns the very tensor it was given: its layout is already right, unless
    # the call is one that moves axes.
    lead, layout = max(moving, key=lambda pair: (pair[0].ndim, pair[0].numel()))
    for result in results:
        same = any(result is tensor for tensor, _ in moving)
        if same and function not in _AXIS_ONE | _MIXES | MOVES_IN_PLACE:
            continue
        mark(result, _derive(function, args, kwargs, lead, layout, result))


def _derive(
    function: TensorFunction,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    lead: torch.Tensor,
    layout: Layout,
    result: torch.Tensor,
) -> Layout:
    if function in _AXIS_ONE and result.ndim >= 2:
        lone = _slides_along_channels(layout, tuple(lead.shape), tuple(result.shape))
        return layout if lone else replace(layout, channels=(1,))
    if function in _AXIS_LAST:
        return replace(layout, channels=(result.ndim - 1,))
    if function in _PRODUCTS:
        return _product(function, args, kwargs, result)
    if function in _EINSUMS | _MIXES:
        return _einsum(args) if function in _EINSUMS else Layout(None, ())
    origins = origins_of(function, args, kwargs, lead, result)
    if origins is not None and len(origins) == result.ndim:
        moved = _moved(layout, origins)
        whole = moved.images is None or (
            result.shape[moved.images] == lead.shape[layout.images or 0]
        )
        return moved if whole else replace(moved, images=None)
    if function in _RESHAPES:
        return _reshaped(layout, tuple(lead.shape), tuple(result.shape))
    if result.ndim != lead.ndim:
        # Broadcasting aligns axes from the right: where the rank rises, equal sizes in front would
        # be a coincidence.
        fewer = layout.images == 0 and 0 < result.ndim < lead.ndim
        leading = fewer and result.shape[0] == lead.shape[0]
        return Layout(0 if leading else None, ())
    return _same_axes(function, layout, tuple(lead.shape), tuple(result.shape))


def _slides_along_channels(layout: Layout, old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    """Return whether a filter runs along the channels, as efficient channel attention's does."""
    return old == new and new[1] == 1 and bool(layout.channels) and 1 not in layout.channels


def _moved(layout: Layout, origins: list[int | None]) -> Layout:
    images = origins.index(layout.images) if layout.images in origins else None
    kept = tuple(place for place, origin in enumerate(origins) if origin in layout.channels)
    return Layout(images if layout.images is not None else None, kept)


def _same_axes(
    function: TensorFunction, layout: Layout, old: tuple[int, ...], new: tuple[int, ...]
) -> Layout:
    """Return the layout after an elementwise, pooling or joining call."""
    images = layout.images
    if images is not None and new[images] != old[images]:
        images = None
    if function in _RESIZES or all(new[axis] == old[axis] for axis in layout.channels):
        return Layout(images, layout.channels)
    return Layout(images, ())


def _product(
    function: TensorFunction, args: Sequence[Any], kwargs: dict[str, Any], result: torch.Tensor
) -> Layout:
    """Return the layout of a matrix product, whose last axis comes from the last factor."""
    # An addend comes before the factors, an attention's mask after them.
    tensors = [*tensors_in(args), *tensors_in(kwargs)]
    first, second = tensors[:3:2] if function in _ATTENTIONS else tensors[-2:]
    left, right, last = layout_of(first), layout_of(second), result.ndim - 1
    if left is None or right is None:
        return Layout(None, ())
    if right == CONSTANT:
        return Layout(left.images, (last,))
    ends = (last,) if second.ndim - 1 in right.channels else ()
    if left == CONSTANT:
        return Layout(right.images if second.ndim == result.ndim else None, ends)
    return Layout(left.images, (*(axis for axis in left.channels if axis < last), *ends))


def _einsum(args: Sequence[Any]) -> Layout:
    """Return the layout of an Einstein sum that names all axes."""
    equation = args[0].replace(" ", "") if isinstance(args[0], str) else ""
    terms, arrow, out = equation.partition("->")
    if not arrow or "." in equation:
        return Layout(None, ())
    images, channels, moving, fixed = set[str](), set[str](), set[str](), set[str]()
    for term, tensor in zip(terms.split(","), tensors_in(args[1:]), strict=True):
        layout = layout_of(tensor)
        if layout == CONSTANT:
            fixed |= set(term)
            continue
        if layout is None or layout.images is None or not layout.channels:
            return Layout(None, ())
        moving |= set(term)
        images.add(term[layout.images])
        channels |= {term[axis] for axis in layout.channels}
    if channels - set(out):
        # Channels that were summed over live on in the axes that the weights bring.
        channels |= fixed - moving
    kept = [out.index(letter) for letter in images if letter in out]
    places = tuple(place for place, letter in enumerate(out) if letter in channels)
    return Layout(kept[0] if len(kept) == 1 else None, places)


def _written(target: torch.Tensor, index: Any, value: Any) -> None:
    """Mark a tensor of unknown or constant layout into which marked values were written."""
    layout = layout_of(value) if isinstance(value, torch.Tensor) else None
    if layout is None or layout == CONSTANT or layout_of(target) not in (None, CONSTANT):
        return
    axes: Origins = list(range(target.ndim))
    origins = indexed(index, axes)
    places = [axis for axis in origins or () if axis is not None]
    if len(places) != value.ndim:
        mark(target, Layout(None, ()))
        return
    images = None if layout.images is None else places[layout.images]
    mark(target, Layout(images, tuple(sorted(places[axis] for axis in layout.channels))))


def _reshaped(layout: Layout, old: tuple[int, ...], new: tuple[int, ...]) -> Layout:
    """Return the layout after a call that keeps the elements' order."""
    if math.prod(old) != math.prod(new):
        return Layout(None, ())
    channels: list[int] = []
    for before, after in _runs(old, new):
        held = [axis in layout.channels for axis in before if old[axis] > 1]
        if any(held):
            if not all(held):
                return Layout(_start_kept(layout.images, old, new), ())
            channels += after
    return Layout(_start_kept(layout.images, old, new), tuple(channels))


def _runs(old: tuple[int, ...], new: tuple[int, ...]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the shortest runs of old and new axes that hold the same elements."""
    befores = [axis for axis in range(len(old)) if old[axis] > 1]
    afters = [axis for axis in range(len(new)) if new[axis] > 1]
    while befores and afters:
        before, after = [befores.pop(0)], [afters.pop(0)]
        while (gap := math.prod(old[i] for i in before) - math.prod(new[i] for i in after)) != 0:
            if gap < 0:
                before.append(befores.pop(0))
            else:
                after.append(afters.pop(0))
        yield before, after


def _start_kept(axis: int | None, old: tuple[int, ...], new: tuple[int, ...]) -> int | None:
    """Return the new axis with as many elements before it as the old one; None if there is none."""
    if axis is None:
        return None
    before = math.prod(old[:axis])
    starts = [i for i in range(len(new)) if math.prod(new[:i]) == before]
    # Axes of length 1 begin where their neighbour begins. The same length wins, then an axis that
    # holds the old one whole; else the old one was split, and the first part is the slowest.
    same = [i for i in starts if new[i] == old[axis]]
    whole = [i for i in starts if new[i] % old[axis] == 0]
    return next(iter(same or whole or starts), None)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of a value and of its nested lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


_AXIS_ONE = named(
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "batch_norm", "group_norm", "instance_norm",
)  # fmt: skip
#: Calls that take only the shape and type of the tensor they are given.
_FROM_DATA = named("tensor", "as_tensor", "asarray", "from_numpy", "frombuffer")
_BLANKS = named(
    "new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "zeros_like", "ones_like",
    "empty_like", "full_like", "rand_like", "randn_like",
)  # fmt: skip
_AXIS_LAST = named("linear", "bilinear", "layer_norm", "rms_norm")
_RESHAPES = named(
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
