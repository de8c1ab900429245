"""The paths to the results of each call of torch, from those to its arguments.

A call that has no rule here gives results whose paths are not known: nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from survey.capture.arguments import tensors_in
from survey.capture.axis_origins import PERMUTATIONS, REDUCTIONS, named, origins_of
from survey.capture.elementwise import ELEMENTWISE
from survey.capture.layout import RESHAPES
from survey.network_measures.paths.contractions import RULES as CONTRACTIONS
from survey.network_measures.paths.contractions import contracted
from survey.network_measures.paths.counts import Paths, absent, concatenated
from survey.network_measures.paths.elementwise import elementwise
from survey.network_measures.paths.elementwise import sum_of as elementwise_sum
from survey.network_measures.paths.trace import PathCall, Sum, Unfollowed

Rule = Callable[[PathCall], list[Paths]]

#: Reductions that are linear in what they reduce.
_SUMS, _MEANS = ("sum", "nansum"), ("mean", "nanmean")


def results_of(call: PathCall) -> list[Paths]:
    """Return the paths to each result of a call.

    Raises
    ------
    Unfollowed
        If there is no rule for it, or an argument's paths are not known.
    """
    rule = RULES.get(call.function)
    if rule is None and call.function in ELEMENTWISE:
        rule = elementwise
    # A number that torch makes of plain ones has no input, and nobody reads its paths.
    if rule is None or not call.inputs:
        for _, trace in call.inputs:
            if trace.known is None:
                raise Unfollowed(trace.reason)
        raise Unfollowed(f"the call of {call.name} is not one whose paths are known")
    return rule(call)


def sum_of(call: PathCall) -> Sum:
    """Return the sum that each result of a call is.

    What scales, shifts or moves the values of a sum leaves its terms alone.
    """
    tensor, trace = call.inputs[0]
    if call.function in ELEMENTWISE:
        return elementwise_sum(call)
    if call.function in _KEEPING and len(call.inputs) == 1:
        return trace.copied()
    if call.name in (*_SUMS, *_MEANS) and _is_of_stack(call):
        return Sum(tensor.shape[trace.stacked or 0])
    return Sum()


def stacked_by(call: PathCall) -> int | None:
    """Return the axis of a call's result, from the right, along which values were stacked."""
    if RULES.get(call.function) is _stacked:
        ndim = call.results[0].ndim
        return int(call.argument(1, "dim", 0)) % ndim - ndim
    if call.function not in ELEMENTWISE:
        return None
    return next((each.stacked for _, each in call.inputs if each.stacked is not None), None)


def _normalised(call: PathCall) -> list[Paths]:
    return [call.only()]


def _reshaped(call: PathCall) -> list[Paths]:
    paths = call.inputs[0][1].paths
    return [paths.reshaped(result.shape) for result in call.results]


def _expanded(call: PathCall) -> list[Paths]:
    return [call.inputs[0][1].paths.expanded(call.results[0].shape)]


def _moved(call: PathCall) -> list[Paths]:
    """Return the paths where a call moves or drops values: it is made on them too."""
    again = _again(call)
    return call.only().moved(again)


def _placed(call: PathCall) -> list[Paths]:
    again = _again(call)
    return [call.only().placed(lambda tensor, _: again(tensor), call.results[0].shape)]


def _again(call: PathCall) -> Callable[[torch.Tensor], Any]:
    """Return the call on another tensor, where no values say what it does."""
    moving = call.inputs[0][0]
    others = [t for t in [*tensors_in(call.args), *tensors_in(call.kwargs)] if t is not moving]
    if len(call.inputs) > 1 or any(other.is_meta for other in others):
        raise Unfollowed(f"which values {call.name} takes depends on values")

    def again(tensor: torch.Tensor) -> Any:
        def given(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return tensor if value is moving else value.cpu()
            return type(value)(map(given, value)) if isinstance(value, (list, tuple)) else value

        options = {name: given(value) for name, value in call.kwargs.items()}
        return call.function(*map(given, call.args), **options)

    return again


def _padded(call: PathCall) -> list[Paths]:
    widths, shape = call.argument(1, "pad"), call.results[0].shape
    moving = {len(shape) - 1 - place // 2 for place, width in enumerate(widths) if width}
    if call.argument(2, "mode", "constant") != "constant":
        again = _again(call)
        return [call.only().placed(lambda tensor, _: again(tensor), shape, moving)]

    def padded(tensor: torch.Tensor, nowhere: float) -> torch.Tensor:
        return functional.pad(tensor, widths, value=nowhere)

    return [call.only().placed(padded, shape, moving)]


def _concatenated(call: PathCall) -> list[Paths]:
    axis = call.argument(1, "dim", call.kwargs.get("axis", 0))
    return [concatenated(_parts(call), axis)]


def _stacked(call: PathCall) -> list[Paths]:
    axis = call.argument(1, "dim", 0) % call.results[0].ndim
    return [
        concatenated([part.moved(lambda t: t.unsqueeze(axis))[0] for part in _parts(call)], axis)
    ]


def _parts(call: PathCall) -> list[Paths]:
    parts = []
    for tensor in tensors_in(call.argument(0, "tensors")):
        trace = call.trace(tensor)
        parts.append(absent(tensor.shape) if trace is None else trace.paths)
    return parts


def _pooled(call: PathCall) -> list[Paths]:
    """Return the paths to what is made of nearby positions of each channel."""
    paths = call.only()
    digit = re.search("([123])d", call.name)
    positions = int(digit[1]) if digit else len(paths.shape) - 2
    pooled = paths.over(range(-positions, 0), summed=False)
    return [pooled.expanded(result.shape) for result in call.results]


def _reduced(call: PathCall) -> list[Paths]:
    (lead, trace), result = call.inputs[0], call.results[0]
    paths = call.only()
    axes = range(lead.ndim)
    if result.ndim == lead.ndim:
        gone = [axis for axis in axes if result.shape[axis] != lead.shape[axis]]
    else:
        origins = origins_of(call.function, call.args, call.kwargs, lead, result)
        gone = [axis for axis in axes if axis not in (origins or [])]
    if call.name in _SUMS or (call.name in _MEANS and _is_of_stack(call)):
        reduced = contracted(lead, trace, gone)
    else:
        reduced = paths.over(gone, summed=False)
    return [reduced.reshaped(each.shape) for each in call.results]


def _is_of_stack(call: PathCall) -> bool:
    """Return whether a call reduces the axis that values were stacked along, and no other."""
    (lead, trace), axis = call.inputs[0], call.argument(1, "dim", call.kwargs.get("axis"))
    axes = axis if isinstance(axis, (list, tuple)) else [axis]
    return [each % lead.ndim - lead.ndim for each in axes if each is not None] == [trace.stacked]


def _copied(call: PathCall) -> list[Paths]:
    trace = call.trace(call.args[1])
    paths = absent(call.args[1].shape) if trace is None else trace.paths
    return [paths.expanded(call.results[0].shape)]


#: Calls that put the values of one tensor elsewhere, or drop some.
_KEEPING = RESHAPES | PERMUTATIONS | named(
    "expand", "expand_as", "broadcast_to", "__getitem__", "select", "narrow", "unbind", "chunk",
    "split", "split_with_sizes", "tensor_split",
)  # fmt: skip


def _table(rules: dict[Rule, frozenset[Callable[..., Any]]]) -> dict[Callable[..., Any], Rule]:
    return {function: rule for rule, functions in rules.items() for function in functions}


#: The rule of each call, but for the elementwise ones.
RULES: dict[Callable[..., Any], Rule] = CONTRACTIONS | _table(
    {
        _normalised: named(
            "batch_norm", "layer_norm", "group_norm", "instance_norm", "rms_norm", "normalize",
            "local_response_norm", "softmax", "log_softmax", "softmin",
        ),
        _reshaped: RESHAPES,
        _expanded: named("expand", "expand_as", "broadcast_to"),
        _moved: PERMUTATIONS | named(
            "__getitem__", "select", "narrow", "unbind", "chunk", "split", "split_with_sizes",
            "tensor_split", "repeat", "tile", "diagonal", "pixel_shuffle", "pixel_unshuffle",
            "channel_shuffle", "native_channel_shuffle", "repeat_interleave", "index_select",
        ) | {torch.Tensor.unfold},
        _placed: named("roll", "flip"),
        _padded: named("pad"),
        _concatenated: named("cat", "concat", "concatenate"),
        _stacked: named("stack"),
        _pooled: named(
            *(
                f"{kind}_pool{size}d{ending}"
                for kind in ("avg", "max", "lp", "adaptive_avg", "adaptive_max")
                for size in (1, 2, 3)
                for ending in ("", "_with_indices")
            ),
            "interpolate", "upsample", "upsample_nearest", "upsample_bilinear",
        ),
        _reduced: REDUCTIONS & named(
            "mean", "sum", "amax", "amin", "nanmean", "nansum", "max", "min", "median"
        ),
        _copied: named("copy_"),
    }
)  # fmt: skip
