"""The paths to what linear layers, convolutions, products of matrices and attention make."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from survey.capture.axes import Part
from survey.capture.axis_origins import named
from survey.capture.layout import layout_of
from survey.capture.products import factors_of
from survey.network_measures.paths.counts import Paths
from survey.network_measures.paths.trace import PathCall, Trace, Unfollowed


def contracted(tensor: torch.Tensor, trace: Trace, axes: Iterable[int]) -> Paths:
    """Return the paths to sums of a tensor's values along axes, which keep a length of 1.

    Each channel adds its paths, and so does each of several values that were stacked. Positions
    are averaged: a path goes through one channel of a layer, wherever in the image that is.
    """
    gone = {axis % tensor.ndim for axis in axes}
    layout = layout_of(tensor)
    known = layout is not None and layout.fits(tensor.shape)
    shape: list[int] = []
    positions: list[int] = []
    ways: list[int] = []
    for axis, size in enumerate(tensor.shape):
        alike = axis not in gone or axis - tensor.ndim == trace.stacked
        parts = layout.each[axis] if layout is not None and known and not alike else ()
        for part in parts or (Part("lost", size),):
            if axis in gone:
                places = positions if part.role in ("images", "positions") else ways
                places.append(len(shape))
            shape.append(part.size)
    paths = trace.paths.reshaped(shape).over(positions, summed=False).over(ways, summed=True)
    return paths.reshaped([1 if axis in gone else size for axis, size in enumerate(tensor.shape)])


def dense(paths: Paths, shape: Sequence[int]) -> Paths:
    """Return the paths to the outputs, of a shape, of a layer that sums along the last axis."""
    return paths.over([-1], summed=True).expanded(shape)


def _linear(call: PathCall) -> list[Paths]:
    return [dense(_values(call), call.results[0].shape)]


def _values(call: PathCall) -> Paths:
    """Return the paths to a layer's input, whose weights must not depend on the network's."""
    values = call.argument(0, "input")
    if any(tensor is not values for tensor, _ in call.inputs):
        raise Unfollowed(f"the weights of {call.name} are made from the input")
    return call.only()


def _convolved(call: PathCall) -> list[Paths]:
    """Return the paths to channels that are sums over those of their group, at any position."""
    paths, shape = _values(call), call.results[0].shape
    axis = len(shape) - 1 - int(re.findall("[123](?=d)", call.name)[0])
    groups = call.argument(6, "groups", 1)
    places = [place for place in range(len(shape)) if place != axis]
    channels = paths.over(places, summed=False).reshaped([groups, paths.shape[axis] // groups])
    made = channels.over([1], summed=True).expanded([groups, shape[axis] // groups])
    alone = [shape[axis] if place == axis else 1 for place in range(len(shape))]
    return [made.reshaped(alone).expanded(shape)]


def _multiplied(call: PathCall) -> list[Paths]:
    """Return the paths to a product of matrices: of one value with weights of any kind."""
    factors = factors_of(call.args, call.kwargs)
    if call.name == "__rmatmul__":
        factors = factors[::-1]
    if any(all(tensor is not factor for factor in factors) for tensor, _ in call.inputs):
        raise Unfollowed(f"{call.name} adds a value that depends on the input")
    place, trace, weighted = _value_of(call, factors)
    value, other = factors[place], factors[1 - place]
    axis = -2 if place == 1 and value.ndim > 1 else -1
    if weighted and not (place == 0 and other.ndim > 1):
        made = contracted(value, trace, [axis])
    else:
        # Weights from the right make channels of whatever they sum along, as a linear layer does.
        made = trace.paths.over([axis], summed=weighted)
    if value.ndim == 1 or other.ndim == 1:
        made = made.moved(lambda tensor: tensor.squeeze(axis))[0]
    if value.ndim == 1 and other.ndim > 1:
        made = made.moved(lambda tensor: tensor.unsqueeze(-1))[0]
    return [made.expanded(call.results[0].shape)]


def _value_of(call: PathCall, factors: Sequence[Any]) -> tuple[int, Trace, bool]:
    """Return which factor is followed, what is known of it, and whether by weights of the network.

    A factor that a softmax made averages the other one: attention follows the values.
    """
    traces = [(place, trace) for place, each in enumerate(factors) if (trace := call.trace(each))]
    values = [(place, trace) for place, trace in traces if not trace.attention]
    if len(traces) == 1:
        return *traces[0], True
    if len(values) != 1:
        raise Unfollowed(
            f"{call.name} multiplies two values that depend on the input, and neither is a"
            " softmax's weights"
        )
    call.conventions.add("attention")
    return *values[0], False


def _attention(call: PathCall) -> list[Paths]:
    trace = call.trace(call.argument(2, "value"))
    if trace is None:
        raise Unfollowed("the values of an attention do not depend on the input")
    call.conventions.add("attention")
    return [trace.paths.over([-2], summed=False).expanded(call.results[0].shape)]


def _einsum(call: PathCall) -> list[Paths]:
    """Return the paths to an Einstein sum of a value with weights of any kind."""
    equation = call.args[0]
    operands = call.args[1] if isinstance(call.args[1], (list, tuple)) else call.args[1:]
    text = equation.replace(" ", "") if isinstance(equation, str) else ""
    terms, arrow, out = text.partition("->")
    if not arrow or "." in text or len(operands) > 2:
        raise Unfollowed(f"the Einstein sum {equation!r} is not followed")
    place, trace, weighted = _value_of(call, operands)
    letters = terms.split(",")[place]
    if len(set(letters)) < len(letters):
        raise Unfollowed(f"the Einstein sum {equation!r} takes a diagonal")
    gone = [axis for axis, letter in enumerate(letters) if letter not in out]
    made = (
        contracted(operands[place], trace, gone)
        if weighted
        else trace.paths.over(gone, summed=False)
    )
    sizes = dict(zip(letters, made.shape, strict=True))
    kept = sorted(sizes, key=lambda letter: (letter in out, out.find(letter)))
    made = made.moved(lambda tensor: tensor.permute([letters.index(each) for each in kept]))[0]
    made = made.reshaped([sizes.get(letter, 1) for letter in out])
    return [made.expanded(call.results[0].shape)]


#: The rule of each such call.
RULES: dict[Callable[..., Any], Callable[[PathCall], list[Paths]]] = {
    **dict.fromkeys(named("linear"), _linear),
    **dict.fromkeys(
        named(*(f"conv{kind}{size}d" for kind in ("", "_transpose") for size in (1, 2, 3))),
        _convolved,
    ),
    **dict.fromkeys(
        named("matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "mv", "addmm", "baddbmm"),
        _multiplied,
    ),
    **dict.fromkeys(named("scaled_dot_product_attention"), _attention),
    torch.einsum: _einsum,
}
