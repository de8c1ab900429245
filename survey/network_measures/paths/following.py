"""The paths to every tensor of one forward pass, followed from call to call.

The network runs once, on the meta device where it can, and what the capture calls an activation
site is an activation here. Of attention the values are followed: what a softmax makes only averages
them. A product of two values, such as a squeeze-and-excitation's, is a sum of them to a path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from survey.capture.arguments import tensors_in, tensors_of_output, tensors_read
from survey.capture.axes import Axes, Axis
from survey.capture.axis_origins import named
from survey.capture.expressions import depends
from survey.capture.follower import Follower
from survey.capture.layout import CONSTANT, MARK, layout_of
from survey.capture.pooling import spread
from survey.network_measures.paths.contractions import dense
from survey.network_measures.paths.counts import Paths, absent, concatenated, joined, origin
from survey.network_measures.paths.rules import results_of, stacked_by, sum_of
from survey.network_measures.paths.trace import PathCall, Trace, Unfollowed

_PATHS = f"{MARK}_paths"

_UNSEEN = (
    "a value comes from a call that is not seen, such as a script's, or from a list that holds it"
)

_SOFTMAX = named("softmax", "softmin")


@dataclass(slots=True)
class _Held:
    """What is known of a tensor as it was when that was known."""

    trace: Trace
    #: The number of changes of its memory until then.
    version: int


class PathFollowing(Follower):
    """Follows the paths of one forward pass.

    Parameters
    ----------
    active : mapping of str to torch.Tensor, optional
        For each site by its name, 1 x c: 1 for a channel that counts as an activation and 0 for one
        that counts as linear. All channels of other sites count.
    """

    def __init__(self, active: Mapping[str, torch.Tensor] | None = None) -> None:
        self._active = active or {}
        self._images = 0
        #: What was known of the input of each site that is running, by its number.
        self._open: dict[int, Trace] = {}
        #: What the paper leaves undefined and the network has: ``gate``, ``attention``.
        self.conventions: set[str] = set()
        #: The paths to what the network returned, as to a single value, once it has.
        self.output: Paths

    def begin(self, images: torch.Tensor) -> None:
        """Take the network's input."""
        self._images = len(images)
        self._mark(images, Trace(origin(images.shape)))

    def follow(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], out: Any
    ) -> None:
        """Take a call that is no activation site, after it ran."""
        if function is torch.Tensor.__setitem__:
            self._write(*args)
            return
        results = tensors_in(out)
        if all(layout_of(result) == CONSTANT for result in results):
            for result in results:
                self._mark(result, Trace(absent(result.shape)))
            return
        read = {name: value for name, value in kwargs.items() if name != "out"}
        inputs = [
            (tensor, self._trace(tensor, changed=any(tensor is result for result in results)))
            for tensor in tensors_read(function, args, kwargs)
            if depends(tensor)
        ]
        call = PathCall(function, args, read, results, inputs, self.conventions)
        made = _results(call)
        for _, trace in inputs:
            trace.sum.readers += 1
        for result, trace in zip(results, made, strict=False):
            self._mark(result, trace)

    def open(
        self, number: int, name: str, tensor: torch.Tensor, axes: Axes, half: int | None
    ) -> None:
        """Take the input of an activation site that is about to run."""
        trace = self._read(tensor)
        if trace.known is None:
            self._open[number] = trace
            return
        active: torch.Tensor | float = 1.0
        if name in self._active:
            active = _over_channels(self._active[name], axes, self._images)
        if half is None:
            self._open[number] = Trace(trace.known.activated(active))
            return
        self.conventions.add("gate")
        value, gate = trace.known.moved(lambda each: each.chunk(2, half))
        parts = [value, gate.activated(active)]
        self._open[number] = Trace(joined(parts, [1.0, 1.0], value.shape))

    def close(self, number: int, output: torch.Tensor) -> None:
        """Take the output of an activation site that has run."""
        self._mark(output, self._open.pop(number))

    def attend(self, value: torch.Tensor, output: torch.Tensor) -> None:
        """Take the values and the output of an attention layer, with its two projections."""
        if not depends(value):
            return
        trace = self._read(value)
        if trace.known is not None:
            self.conventions.add("attention")
            token = trace.known.over(range(-value.ndim, -1), summed=False)
            alike = (*token.shape[:-1], output.shape[-1])
            trace = Trace(dense(dense(token, alike), alike).expanded(output.shape))
        self._mark(output, trace)

    def end(self, output: Any) -> None:
        """Take what the network returned: ``output`` is the paths to it, all values together.

        Raises
        ------
        Unfollowed
            If they are not known, or none leads there.
        """
        returned = tensors_of_output(output)
        if not returned:
            raise Unfollowed(f"the network returns a {type(output).__name__} without any tensor")
        traces = [self._trace(tensor) for tensor in returned if depends(tensor)]
        parts = [trace.paths for trace in traces]
        if not parts:
            raise Unfollowed("what the network returns does not depend on the input")
        whole = concatenated([part.reshaped([part.walk.numel()]) for part in parts], 0)
        single = whole.over([0], summed=False)
        if not torch.isfinite(single.log_count).all():
            raise Unfollowed("no path leads from the input to what the network returns")
        self.output = single

    def _write(self, target: torch.Tensor, index: Any, value: Any) -> None:
        """Take an assignment to some places of a tensor."""
        written = isinstance(value, torch.Tensor) and depends(value)
        if not written and not depends(target):
            return
        known = self._trace(target, changed=True)
        new = self._read(value) if written else Trace(absent(()))
        try:
            if any(tensor.is_meta or depends(tensor) for tensor in tensors_in([index])):
                raise Unfollowed("the places that are written to depend on values")
            parts = zip(known.paths.numbers, new.paths.numbers, strict=True)
            trace = Trace(Paths(*(_with(old, index, part) for old, part in parts)))
        except Unfollowed as error:
            trace = Trace(None, str(error))
        self._mark(target, trace)

    def _read(self, tensor: torch.Tensor) -> Trace:
        """Return what is known of a tensor that something other than a sum reads."""
        trace = self._trace(tensor)
        trace.sum.readers += 1
        return trace

    def _trace(self, tensor: torch.Tensor, *, changed: bool = False) -> Trace:
        """Return what is known of a tensor, which the call itself may have ``changed``."""
        held: _Held | None = getattr(tensor, _PATHS, None)
        if held is None:
            return Trace(None, _UNSEEN)
        if held.version != _version(tensor) and not changed:
            return Trace(None, "a value is changed through a view of its memory")
        return held.trace

    def _mark(self, tensor: torch.Tensor, trace: Trace) -> None:
        """Attach what is known of a tensor."""
        if not isinstance(tensor, torch.nn.Parameter):
            setattr(tensor, _PATHS, _Held(trace, _version(tensor)))


def _version(tensor: torch.Tensor) -> int:
    """Return how often a tensor was changed; 0 for one of inference mode, which does not count."""
    return 0 if tensor.is_inference() else tensor._version


def _results(call: PathCall) -> list[Trace]:
    """Return what is known of each result of a call."""
    attention = call.function in _SOFTMAX or (len(call.inputs) == 1 and call.inputs[0][1].attention)
    try:
        paths = results_of(call)
    except Unfollowed as error:
        return [Trace(None, str(error), attention)] * len(call.results)
    stacked = stacked_by(call)
    return [Trace(each, "", attention, sum_of(call), stacked) for each in paths]


def _over_channels(active: torch.Tensor, axes: Axes, images: int) -> torch.Tensor:
    """Return a number a channel, 1 x c, as a tensor of a site's axes."""
    pairs = zip(axes.each, axes.collapsed().each, strict=True)
    # Of maps flattened into vectors each position has the number of its channel.
    axes = Axes(tuple(axis if _is_flattened(axis) else short for axis, short in pairs))
    view, layout = axes.unfolded(torch.empty(axes.lengths()), images)
    alike = active.to("cpu", torch.float64).expand(images, -1)
    return spread(alike, layout, tuple(view.shape)).expand(view.shape).reshape(axes.lengths())


def _is_flattened(axis: Axis) -> bool:
    return {"channels", "positions"} <= {part.role for part in axis}


def _with(old: torch.Tensor, index: Any, part: torch.Tensor) -> torch.Tensor:
    made = old.clone(memory_format=torch.contiguous_format)
    made[index] = part
    return made
