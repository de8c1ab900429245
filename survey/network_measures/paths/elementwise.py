"""The paths to the results of elementwise calls that are no activations."""

from __future__ import annotations

import torch

from survey.capture.elementwise import ELEMENTWISE, Family
from survey.capture.expressions import SWAPPED
from survey.network_measures.paths.counts import Paths, joined
from survey.network_measures.paths.trace import PathCall, Sum, Trace, Unfollowed, is_statistic

#: Calls that read the shape or the type of their second argument alone.
_ONE_VALUE = ("type_as", "to")


def elementwise(call: PathCall) -> list[Paths]:
    """Return the paths to the result of an elementwise call.

    What is made of one value alone keeps its paths where it is affine in it, or is a statistic such
    as a variance. Statistics scale and shift values, and are no terms or factors of their own.
    """
    _, family = ELEMENTWISE[call.function]
    shape = call.results[0].shape
    if len(call.inputs) == 1 or call.name in _ONE_VALUE:
        return [_of_one(call, family).expanded(shape)]
    if all(is_statistic(tensor) for tensor, _ in call.inputs):
        return [summed(call)]
    if family is Family.SUM:
        value = _shifted(call)
        return [summed(call) if value is None else value.paths.expanded(shape)]
    if family is Family.PRODUCT:
        return [_product(call)]
    if family is Family.QUOTIENT:
        return [_quotient(call).paths.expanded(shape)]
    raise Unfollowed(f"{call.name} joins several values that depend on the input")


def summed(call: PathCall) -> Paths:
    """Return the paths to a sum of values, or to a gated value: each is a way on.

    Sums of sums that nothing else has read are one sum of all their terms.
    """
    traces = [trace for _, trace in call.inputs]
    parts = [trace.paths for trace in traces]
    return joined(parts, [trace.terms for trace in traces], call.results[0].shape)


def sum_of(call: PathCall) -> Sum:
    """Return the sum that the result of an elementwise call is.

    What only shifts or scales a value is no term.
    """
    _, family = ELEMENTWISE[call.function]
    if family is Family.SUM and _shifted(call) is None and call.name not in _ONE_VALUE:
        if len(call.inputs) > 1:
            return Sum(sum(trace.terms for _, trace in call.inputs))
        return call.inputs[0][1].copied()
    values = [trace for tensor, trace in call.inputs if not is_statistic(tensor)]
    linear = family in (Family.SUM, Family.PRODUCT, Family.QUOTIENT)
    return values[0].copied() if linear and len(values) == 1 else Sum()


def _of_one(call: PathCall, family: Family) -> Paths:
    tensor, trace = call.inputs[0]
    paths = trace.paths
    if family is Family.QUOTIENT and _divisor(call) is tensor and not is_statistic(tensor):
        raise Unfollowed("a number is divided by a value that depends on the input")
    bent = family in (Family.POWER, Family.OTHER) and not _is_affine(call)
    if bent and not is_statistic(tensor):
        raise Unfollowed(f"{call.name} by itself is no activation")
    return paths


def _is_affine(call: PathCall) -> bool:
    return call.name.rstrip("_") in ("addcmul", "addcdiv", "lerp")


def _shifted(call: PathCall) -> Trace | None:
    """Return the value that a statistic is subtracted from; None where nothing like it is done."""
    values = [trace for tensor, trace in call.inputs if not is_statistic(tensor)]
    return values[0] if "sub" in call.name and len(values) == 1 else None


def _product(call: PathCall) -> Paths:
    """Return the paths to a product, whose factors are alike: a value and its gate."""
    shape = call.results[0].shape
    if len({id(tensor) for tensor, _ in call.inputs}) == 1:
        raise Unfollowed("the square of a value by itself is no activation")
    values = [trace for tensor, trace in call.inputs if not is_statistic(tensor)]
    averaged = [trace for trace in values if not trace.attention]
    if len(averaged) == 1:
        if len(values) > 1:
            call.conventions.add("attention")
        return averaged[0].paths.expanded(shape)
    call.conventions.add("gate")
    return joined([trace.paths for trace in values], [1.0] * len(values), shape)


def _quotient(call: PathCall) -> Trace:
    divisor = _divisor(call)
    values = [trace for tensor, trace in call.inputs if tensor is not divisor]
    if divisor is None or not is_statistic(divisor) or len(values) != 1:
        raise Unfollowed("a value is divided by one that depends on the input")
    return values[0]


def _divisor(call: PathCall) -> torch.Tensor | None:
    place = 0 if call.function in SWAPPED else 1
    divisor = call.argument(place, "other")
    return divisor if isinstance(divisor, torch.Tensor) else None
