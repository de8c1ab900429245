"""The interception of one forward pass: every module entered and left, every torch call made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from survey.capture.activations import activation_called, activation_of, rectifies
from survey.capture.arguments import Again, argument, by_hand, first_tensor, repeated, tensors_in
from survey.capture.axes import Axes, Part, lost
from survey.capture.expressions import depends, follow_terms, scales, written
from survey.capture.follower import Follower
from survey.capture.layout import CONSTANT, follow, layout_of, mark
from survey.capture.lineage import Descent
from survey.capture.recurrent import RECURRENT
from survey.capture.rounding import Rounding
from survey.capture.site_calls import OpenCall, Place, SiteCalls


class Interception(TorchFunctionMode):
    """The torch function mode of one forward pass, and the hooks of its modules.

    Parameters
    ----------
    sites : SiteCalls
        Takes the activation calls.
    descent : Descent
        Follows what tensors descend from.
    rounding : Rounding, optional
        Disturbs what every call computes.
    follower : Follower, optional
        Follows something else.
    """

    def __init__(
        self,
        sites: SiteCalls,
        descent: Descent,
        rounding: Rounding | None,
        follower: Follower | None = None,
    ) -> None:
        super().__init__()
        self._sites = sites
        self._descent = descent
        self._rounding = rounding
        self._follower = follower
        #: What the call before completed by hand, and its output.
        self._unscaled: tuple[OpenCall, torch.Tensor] | None = None
        # Each stack holds what was entered with the module that entered it.
        self._path: list[tuple[nn.Module | None, str]] = [(None, "")]
        #: Activation modules entered; None for those inside another or independent of the input.
        self._inside: list[tuple[nn.Module | None, OpenCall | None]] = []
        self._paused: list[tuple[nn.Module, Any]] = []

    def hooks(
        self, module: nn.Module, name: str
    ) -> tuple[Callable[..., None], Callable[..., None]]:
        """Return a module's forward pre-hook and its forward hook."""
        # A class derived from it may have activations.
        if type(module).forward is nn.MultiheadAttention.forward:
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

    def _leave_attention(
        self, module: nn.MultiheadAttention, args: Any, kwargs: Any, output: Any
    ) -> None:
        if (guard := _leave(self._paused, module)) is not None:
            guard.__exit__(None, None, None)
        named = enumerate(("query", "key", "value"))
        tensors = [argument(args, kwargs, place, name) for place, name in named]
        if not isinstance(output, tuple) or not all(isinstance(t, torch.Tensor) for t in tensors):
            return
        if layout := _attended(*tensors, batch_first=module.batch_first):
            mark(output[0], layout)
            self._descent.join([args, kwargs], output)
            if self._follower is not None:
                with torch._C.DisableTorchFunction():
                    self._follower.attend(tensors[2], output[0])

    # Activation modules.

    def _enter_activation(self, name: str, activation: str) -> Callable[..., None]:
        def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
            target = None if self._inside else first_tensor(args, kwargs)
            entered = None
            if target is not None:
                again = self._unseen(repeated(module.forward, args, kwargs, target))
                place = Place(self._path[-1][1], name)
                dim = getattr(module, "dim", -1)
                entered = self._sites.open(place, activation, target, again, dim)
            self._inside.append((module, entered))

        return enter

    def _leave_activation(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        entered = _leave(self._inside, module)
        target = first_tensor(args, kwargs)
        # Hooks run after an exception too, and then without an output. A class derived from an
        # activation may return other things beside it, such as a mask of truth values.
        output = next((each for each in tensors_in(output) if each.dtype != torch.bool), None)
        if output is None:
            return
        known = layout_of(target) if target is not None else None
        if known is not None and layout_of(output) is None:
            # Scripted or custom kernels inside hide the call that made the output. What is unknown
            # stays unknown: taken for constant, all that follows would be left out.
            mark(output, known)
        if entered is not None and target is not None:
            self._sites.close(entered, [target], output, rectifies(module))

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
        entered, target = self._entered(function, args, kwargs)
        output = function(*args, **kwargs)
        follow(function, args, kwargs, output)
        if self._rounding is not None:
            self._rounding.disturb(function, [args, kwargs], output)
        if entered is None or target is None:
            self._descent.follow(function, args, kwargs, output)
            if self._follower is not None:
                self._follower.follow(function, args, kwargs, output)
            follow_terms(function, args, kwargs, output)
            if unscaled is not None and scales(function, args, unscaled[1]):
                again = self._unseen(repeated(function, args, kwargs, unscaled[1]))
                self._scale(unscaled[0], output, again)
        else:
            self._sites.close(entered, [target, *tensors_in(args)], output, rectifies(function))
            if activation_called(function) is None:
                self._unscaled = (entered, output)
        return output

    def _entered(
        self, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> tuple[OpenCall | None, torch.Tensor | None]:
        """Open the call where it is an activation, and return it with its input."""
        if self._inside:
            return None, None
        place = Place(self._path[-1][1])
        activation = activation_called(function)
        if activation is not None and (target := first_tensor(args, kwargs)) is not None:
            again = self._unseen(repeated(function, args, kwargs, target))
            dim = argument(args, kwargs, 1, "dim", -1)
            return self._sites.open(place, activation, target, again, dim), target
        if function in RECURRENT:
            self._sites.pass_over(place, RECURRENT[function], tensors_in([args, kwargs]))
            return None, None
        if (call := written(function, args, kwargs)) is None:
            return None, None
        again = by_hand
        if call.source is not None and sum(map(depends, tensors_in([args, kwargs]))) == 1:
            again = self._unseen(repeated(function, args, kwargs, call.source))
        return self._sites.open_written(place, call, again), call.source

    def _scale(self, entered: OpenCall, output: torch.Tensor, again: Again) -> None:
        # Only where the same module's forward makes both calls: another's scales what it was given.
        if not self._inside and entered.caller == self._path[-1][1]:
            self._sites.scale(entered, output, again)

    def _unseen(self, again: Again) -> Again:
        """Return a function that repeats an activation by calls that are no sites."""

        def repeat(values: torch.Tensor) -> torch.Tensor:
            self._inside.append((None, None))
            try:
                with torch._C.DisableTorchFunction():
                    return again(values)
            finally:
                self._inside.pop()

        return repeat


def _leave(stack: list[Any], module: nn.Module) -> Any:
    """Remove the module's entry from a stack and return its value; None if there is none."""
    # Where another's hook raised before ours ran, the module is left without having been entered.
    return stack.pop()[1] if stack and stack[-1][0] is module else None


def _attended(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, batch_first: bool
) -> Axes | None:
    """Return the axes of what queries attend to; None where those of the queries are not known.

    Of queries that are the same for all images, such as learned ones, it has the images of the
    keys or the values.
    """
    axes = layout_of(query)
    if axes != CONSTANT:
        return axes
    held = [(t, layout) for t in (value, key) if (layout := layout_of(t)) != CONSTANT]
    if not held:
        return axes
    tensor, layout = held[0]
    if layout is None or tensor.ndim != 3 or not layout.fits(tensor.shape):
        return lost(query.shape)
    batch, tokens = (0, 1) if batch_first else (1, 0)
    made = {
        batch: layout.each[batch],
        tokens: (Part("positions", query.shape[tokens]),),
        2: (Part("channels", query.shape[2]),),
    }
    return Axes(tuple(made[axis] for axis in range(3)))
