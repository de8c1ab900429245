"""One forward pass, with the pooled input and output of every activation call.

Modules are seen by forward hooks and functionals by a torch function mode, so that each
outermost call is met once, in execution order. The input is pooled before the activation runs,
since an in-place one overwrites it. The network computes exactly what it would compute
unwatched: nothing in it is called twice, re-laid out or replaced.

``layout`` follows what a tensor's axes mean, ``lineage`` what it descends from and ``expressions``
of which values it is an elementwise function; ``blocks`` numbers the activation calls of a block
once the pass is over.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from survey.capture.activations import activation_called, activation_of, rectifies, site_name
from survey.capture.axes import Axes, lost
from survey.capture.blocks import Blocks
from survey.capture.calls import Call, CallList
from survey.capture.expressions import (
    INDEPENDENT,
    NonLinear,
    Term,
    depends,
    follow_activation,
    follow_terms,
    scales,
    term_of,
    written,
)
from survey.capture.layout import (
    CONSTANT,
    follow,
    input_layout,
    layout_of,
    mark,
    tensors_in,
    unmark,
)
from survey.capture.lineage import Descent, Lineage, begin
from survey.capture.near_zero import NearZero
from survey.capture.pooling import pool, pool_and_count, spread
from survey.capture.repeated import Again, by_hand, first_tensor, repeated, second_half
from survey.capture.rounding import Noise, Rounding
from survey.capture.unsupported import refuse_hidden
from survey.errors import CaptureError, SettingsError
from survey.results import Role, Site
from survey.settings import Pooling


@dataclass(frozen=True, slots=True)
class PooledPair:
    """The input and the output of one activation call, pooled over space."""

    #: The activation site of the call.
    site: Site
    #: Pooled input, B x c, float64; None where it cannot be pooled.
    x: torch.Tensor | None
    #: Pooled output, B x c, float64; None where it cannot be pooled.
    y: torch.Tensor | None
    #: Values of the unpooled input and output, and how many of them are nearly zero.
    before: NearZero
    after: NearZero
    #: Machine epsilon of the type that the network's sums were computed in.
    resolution: float
    #: Why there is no pair.
    reason: str | None
    #: Rounding noise of the first images of a score; None for the others.
    noise: Noise | None = None


class Capture:
    """Captures the activation calls of one model.

    Parameters
    ----------
    model : torch.nn.Module
        Any network in eval mode. It is not modified.
    pooling : {"mean", "pre", "sum", "flatten", "public_code"}
        How tensors become matrices; see ``MeasureSettings``.

    Raises
    ------
    CaptureError
        If it holds something that runs activations where they cannot be seen.
    """

    def __init__(self, model: nn.Module, pooling: Pooling = "mean") -> None:
        self._model = model
        self._pooling = pooling
        self._names = {module: name for name, module in model.named_modules()}
        refuse_hidden(self._names)
        self._blocks = Blocks(self._names)

    def forward(
        self, images: torch.Tensor, rounding: Rounding | None = None
    ) -> tuple[Any, list[PooledPair]]:
        """Run the model once and capture its activation calls.

        Parameters
        ----------
        images : torch.Tensor
            B images, as the model takes them.
        rounding : Rounding, optional
            Disturbs what every call computes.

        Returns
        -------
        output
            What the model returned, bit for bit what it returns unwatched and undisturbed.
        pairs : list of PooledPair
            One an activation call, in execution order.
        """
        output, watched = self._watched(images, rounding)
        return output, watched.pairs

    def calls(self, images: torch.Tensor) -> list[Call]:
        """Run the model once and list its elementwise non-linear calls.

        Parameters
        ----------
        images : torch.Tensor
            As for ``forward``; on the meta device nothing is computed.

        Returns
        -------
        list of Call
            In the order of their beginnings. A call inside an activation module is a part of it
            and not listed.
        """
        return self._watched(images)[1].calls()

    def _watched(self, images: torch.Tensor, rounding: Rounding | None = None) -> tuple[Any, _Pass]:
        watched = _Pass(images.shape[0], self._pooling, rounding)
        with contextlib.ExitStack() as stack:
            stack.enter_context(_marked(images, self._model))
            for module, name in self._names.items():
                enter, leave = watched.hooks(module, name)
                before = module.register_forward_pre_hook(enter, with_kwargs=True)
                stack.callback(before.remove)
                after = module.register_forward_hook(leave, with_kwargs=True, always_call=True)
                stack.callback(after.remove)
            stack.enter_context(watched)
            output = self._model(images)
            watched.finish(output, self._blocks)
            return output, watched

    def with_noise(self, images: torch.Tensor, pairs: list[PooledPair]) -> list[PooledPair]:
        """Measure the rounding noise of a pass, by a disturbed pass of its first images.

        Parameters
        ----------
        images : torch.Tensor
            The first k images of the pass.
        pairs : list of PooledPair
            Its pairs.

        Returns
        -------
        list of PooledPair
            The pairs with their noise.

        Raises
        ------
        CaptureError
            If fewer images make other calls.
        """
        # What follows must draw the random numbers that it would have drawn.
        with torch.random.fork_rng(devices=[images.device] if images.is_cuda else []):
            _, disturbed = self.forward(images, Rounding())
        if [pair.site.site_name for pair in disturbed] != [pair.site.site_name for pair in pairs]:
            raise CaptureError(
                f"the forward pass of {len(images)} images made {len(disturbed)} activation calls "
                f"and that of more made {len(pairs)}: its path depends on the images"
            )
        return [_compared(*both) for both in zip(pairs, disturbed, strict=True)]


def _compared(pair: PooledPair, disturbed: PooledPair) -> PooledPair:
    if pair.x is None or pair.y is None or disturbed.x is None or disturbed.y is None:
        return pair
    x, y = (pair.x[: len(disturbed.x)], pair.y[: len(disturbed.y)])
    return replace(pair, noise=Noise(disturbed.x - x, disturbed.y - y))


@dataclass(frozen=True, slots=True)
class _Open:
    """An activation call that has begun and not ended."""

    number: int
    #: The pair, with its output still missing.
    pair: PooledPair
    #: What its output descends from.
    lineage: Lineage
    #: Its input as a function of values.
    term: Term
    again: Again
    #: For a call that gates one half by the other, the half that is activated.
    half: torch.Tensor | None
    axes: Axes


class _Pass(TorchFunctionMode):
    """The torch function mode of one forward pass, with the sites captured so far."""

    def __init__(self, images: int, pooling: Pooling, rounding: Rounding | None) -> None:
        super().__init__()
        self._rounding = rounding
        self._images = images
        self._pooling = pooling
        #: Number, caller and pair of each site that was left. What was entered is not kept: it
        #: holds the call's arguments, and so would every activation of the network.
        self._sites: list[tuple[int, str, PooledPair]] = []
        self._seen = CallList()
        #: What the call before completed by hand: the activation, its output and its caller.
        self._unscaled: tuple[_Open, torch.Tensor, str] | None = None
        #: The sites, once the pass is over.
        self.pairs: list[PooledPair] = []
        self._descent = Descent()
        self._calls: Counter[tuple[str, str | None]] = Counter()
        # Each stack holds what was entered with the module that entered it.
        self._path: list[tuple[nn.Module | None, str]] = [(None, "")]
        #: Activation modules entered; None for those inside another or independent of the input.
        self._inside: list[tuple[nn.Module | None, _Open | None]] = []
        self._paused: list[tuple[nn.Module, Any]] = []

    def finish(self, output: Any, blocks: Blocks) -> None:
        """Set the pairs, with the roles and repeats that follow from the whole pass."""
        gates = self._descent.gates(output)
        sites = [site for site in self._sites if not self._seen.parts >> site[0] & 1]
        repeats = blocks.repeats([caller for _, caller, _ in sites])
        for (number, _, pair), repeat in zip(sites, repeats, strict=True):
            role: Role = "gate" if gates >> number & 1 else "main"
            self.pairs.append(replace(pair, site=replace(pair.site, role=role, repeat=repeat)))

    def calls(self) -> list[Call]:
        """Return the elementwise non-linear calls, after the pass."""
        return self._seen.listed(
            {number: (pair.site.site_name, pair.reason) for number, _, pair in self._sites}
        )

    def hooks(
        self, module: nn.Module, name: str
    ) -> tuple[Callable[..., None], Callable[..., None]]:
        """Return a module's forward pre-hook and its forward hook."""
        if isinstance(module, nn.MultiheadAttention):
            return self._enter_attention, self._leave_attention
        if (activation := activation_of(module)) is not None:
            return self._enter_activation(name, activation), self._leave_activation
        return self._enter_module(name), self._leave_module

    # Hooks of ordinary modules keep the path that names functional calls.

    def _enter_module(self, name: str) -> Callable[..., None]:
        return lambda module, _args, _kwargs: self._path.append((module, name))

    def _leave_module(self, module: nn.Module, _args: Any, _kwargs: Any, _output: Any) -> None:
        _leave(self._path, module)

    # An active torch function mode makes nn.MultiheadAttention leave its fused kernel, which
    # moves the last bits: it is kept off there. There is no activation inside.

    def _enter_attention(self, module: nn.Module, _args: Any, _kwargs: Any) -> None:
        guard = torch._C.DisableTorchFunction()
        guard.__enter__()
        self._paused.append((module, guard))

    def _leave_attention(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if (guard := _leave(self._paused, module)) is not None:
            guard.__exit__(None, None, None)
        query = first_tensor(args, kwargs, "query")
        if query is not None and isinstance(output, tuple) and (layout := layout_of(query)):
            mark(output[0], layout)
            self._descent.join([args, kwargs], output)

    # Activation modules.

    def _enter_activation(self, name: str, activation: str) -> Callable[..., None]:
        def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
            target = None if self._inside else first_tensor(args, kwargs, "input")
            entered = None
            if target is not None:
                again = repeated(module.forward, args, kwargs)
                dim = getattr(module, "dim", -1)
                entered = self._open((name, None), activation, target, again, dim)
            self._inside.append((module, entered))

        return enter

    def _leave_activation(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        entered = _leave(self._inside, module)
        # Hooks run after an exception too, and then without an output.
        if not isinstance(output, torch.Tensor):
            return
        target = first_tensor(args, kwargs, "input")
        known = layout_of(target) if target is not None else None
        if known is not None and layout_of(output) is None:
            # Scripted or custom kernels inside hide the call that made the output. What is unknown
            # stays unknown: taken for constant, all that follows would be left out.
            mark(output, known)
        if entered is not None and target is not None:
            self._close(entered, [target], output, rectifies(module))

    # Functional activations and every other call.

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        unscaled, self._unscaled = self._unscaled, None
        activation = None if self._inside else activation_called(function)
        entered, target = None, None
        if activation is not None and (target := first_tensor(args, kwargs, "input")) is not None:
            again = repeated(function, args, kwargs)
            dim = kwargs.get("dim", args[1] if len(args) > 1 else -1)
            place = (self._path[-1][1], activation)
            entered = self._open(place, activation, target, again, dim)
        elif not self._inside and (call := written(function, args, kwargs)) is not None:
            target = call.source
            entered = self._open_written(call, function, args, kwargs)
        output = function(*args, **kwargs)
        follow(function, args, kwargs, output)
        if self._rounding is not None:
            self._rounding.disturb([args, kwargs], output)
        if entered is None or target is None:
            self._descent.follow(function, args, kwargs, output)
            follow_terms(function, args, kwargs, output)
            if unscaled is not None and scales(function, args, unscaled[1]):
                self._scale(*unscaled, output)
        else:
            self._close(entered, [target, *tensors_in(args)], output, rectifies(function))
            if activation is None:
                self._unscaled = (entered, output, self._path[-1][1])
        return output

    def _scale(
        self, entered: _Open, _unscaled: torch.Tensor, caller: str, output: torch.Tensor
    ) -> None:
        """Let a number that scales an activation at once, such as a hard swish's 1/6, be its part.

        Only where the same module's forward makes both calls: another's scales what it was given.
        """
        number, whose, pair = self._sites[-1]
        apart = self._inside or caller != self._path[-1][1] or number != entered.number
        if apart or pair.y is None or self._pooling == "pre":
            return
        y, after, reason = self._pool(output, entered.axes)
        self._sites[-1] = (number, whose, replace(pair, y=y, after=after, reason=reason))

    def _open_written(
        self, call: NonLinear, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> _Open | None:
        place = (self._path[-1][1], call.name)
        if call.source is None:
            self._seen.see(place[0], call.name, call.lead, reason=call.reason)
            return None
        alone = sum(depends(tensor) for tensor in tensors_in([args, kwargs])) == 1
        again = repeated(function, args, kwargs) if alone else by_hand
        entered = self._open(place, call.name, call.source, again, -1)
        if entered is not None and call.parts:
            self._seen.compose(call.parts, entered.number)
        return entered

    def _open(
        self,
        place: tuple[str, str | None],
        activation: str,
        tensor: torch.Tensor,
        again: Again,
        dim: int,
    ) -> _Open | None:
        axes = layout_of(tensor)
        if axes == CONSTANT:
            self._seen.see(place[0], activation, tensor, reason=INDEPENDENT)
            return None
        self._calls[place] += 1
        # An unknown layout is not guessed: it may be a table that no image enters.
        axes = axes or lost(tensor.shape)
        number, lineage = self._descent.open_site(tensor, activation)
        self._seen.see(place[0], activation, tensor, site=number)
        term = term_of(tensor)
        half = None
        if activation == "glu":
            # The non-linear part is the gate: a sigmoid of the second half.
            tensor = half = second_half(tensor, dim)
            axes = axes.resized(tensor.shape, channels=True)
            again = torch.sigmoid
        name = site_name(*place, self._calls[place])
        try:
            x, before, reason = self._pool(tensor, axes)
        except SettingsError as error:
            raise SettingsError(f"{name}: {error.message}", hint=error.hint) from None
        site = Site(
            site_name=name,
            activation=activation,
            call=self._calls[place],
            graph_depth=lineage.depth,
            role="main",
            repeat=1,
            layout=axes.describe(),
            spatial=axes.spatial(tensor.shape),
        )
        resolution = _resolution(tensor.dtype)
        return _Open(
            number=number,
            pair=PooledPair(site, x, None, before, NearZero(0, 0), resolution, reason),
            lineage=lineage,
            term=term,
            again=again,
            half=half,
            axes=axes,
        )

    def _close(
        self, entered: _Open, inputs: list[torch.Tensor], output: torch.Tensor, rectified: bool
    ) -> None:
        self._descent.mark(output, entered.lineage, inputs)
        follow_activation(entered.term, entered.number, inputs, output)
        pair = entered.pair
        activated = output if entered.half is None else self._again(entered, entered.half)
        known = pair.before.rectified() if rectified else None
        y, after, reason = self._pool(activated, entered.axes, known)
        if self._pooling == "pre" and pair.x is not None:
            y, reason = self._activated(entered, pair.x, output.dtype)
        pair = replace(pair, y=y, after=after, reason=pair.reason or reason)
        self._sites.append((entered.number, self._path[-1][1], pair))

    def _again(self, entered: _Open, values: torch.Tensor) -> torch.Tensor:
        """Return the activation of other values, computed by a call that is no site."""
        self._inside.append((None, None))
        try:
            with torch._C.DisableTorchFunction():
                return entered.again(values)
        finally:
            self._inside.pop()

    def _activated(
        self, entered: _Open, x: torch.Tensor, dtype: torch.dtype
    ) -> tuple[torch.Tensor | None, str | None]:
        """Return the activation of the pooled input, or the reason for which it cannot run."""
        with torch._C.DisableTorchFunction():
            # An in-place activation must not overwrite the pooled input.
            axes = entered.axes.collapsed()
            meant, layout = axes.unfolded(x.new_empty(axes.lengths()), self._images)
            values = spread(x, layout, tuple(meant.shape)).view(axes.lengths())
            try:
                activated = self._again(entered, values.to(dtype, copy=True))
                return pool(*axes.unfolded(activated, self._images), self._images, "mean"), None
            except (RuntimeError, CaptureError) as error:
                # One with a parameter for every position, such as a PReLU over tokens.
                return None, f"the activation does not run on an average over space: {error}"

    def _pool(
        self, tensor: torch.Tensor, axes: Axes, count: NearZero | None = None
    ) -> tuple[torch.Tensor | None, NearZero, str | None]:
        """Return the pooled matrix, the count near zero, and the reason for having no matrix."""
        # Pooling is no part of the network: the mode must not see it.
        with torch._C.DisableTorchFunction():
            try:
                # A network on the meta device is followed for its sites alone.
                if tensor.is_meta:
                    count = NearZero(0, 0)
                layout = axes.whole(self._images)
                if self._pooling != "public_code":
                    tensor, layout = axes.unfolded(tensor.detach(), self._images)
                if count is not None:
                    return pool(tensor, layout, self._images, self._pooling), count, None
                return *pool_and_count(tensor, layout, self._images, self._pooling), None
            except CaptureError as error:
                return None, NearZero(0, 0), error.message


def _resolution(dtype: torch.dtype) -> float:
    """Return the relative rounding error of sums of a type: its machine epsilon."""
    if not dtype.is_floating_point:
        return 0.0
    # Half precision is summed in float32: what differs there by a rounding does differ.
    return min(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)


def _leave(stack: list[Any], module: nn.Module) -> Any:
    """Remove the module's entry from a stack and return its value; None if there is none."""
    # Where another's hook raised before ours ran, the module is left without having been entered.
    return stack.pop()[1] if stack and stack[-1][0] is module else None


@contextlib.contextmanager
def _marked(images: torch.Tensor, model: nn.Module) -> Iterator[None]:
    """Mark the input and the tensors that modules hold during one forward pass."""
    held = [
        tensor
        for module in model.modules()
        for tensor in (*module.buffers(recurse=False), *vars(module).values())
        if isinstance(tensor, torch.Tensor)
    ]
    for tensor in held:
        unmark(tensor)
        mark(tensor, CONSTANT)
    mark(images, input_layout(images))
    begin(images)
    try:
        yield
    finally:
        for tensor in (*held, images):
            unmark(tensor)
