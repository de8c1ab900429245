"""One forward pass, with the pooled input and output of every activation call.

Modules are seen by forward hooks and functionals by a torch function mode, so that each
outermost call is met once, in execution order. The input is pooled before the activation runs,
since an in-place one overwrites it. The network computes exactly what it would compute
unwatched: nothing is called twice, re-laid out or replaced.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from survey.errors import CaptureError
from survey.layout import CONSTANT, Layout, follow, input_layout, layout_of, mark, unmark
from survey.pooling import pool
from survey.sites import activation_called, activation_of, site_name


@dataclass(frozen=True, slots=True)
class PooledPair:
    """One activation call: what went in and what came out, averaged over space."""

    #: Module path and call number.
    site_name: str
    #: The activation function.
    activation: str
    #: Which call of this activation at this path, counting from 1.
    call: int
    #: The meaning of the input's axes.
    layout: str
    #: Pooled input, B x c, float64; None where it cannot be pooled.
    x: torch.Tensor | None
    #: Pooled output, B x c, float64; None where it cannot be pooled.
    y: torch.Tensor | None
    #: Machine epsilon of the type the network computed in.
    resolution: float
    #: Why there is no pair.
    reason: str | None


class Capture:
    """Watches one model.

    Parameters
    ----------
    model : torch.nn.Module
        Any network in eval mode. It is not modified.

    Raises
    ------
    CaptureError
        If it holds something that runs activations where they cannot be seen.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._names = {module: name for name, module in model.named_modules()}
        _refuse_hidden(self._names)
        self._pass = _Pass(0)

    def forward(self, images: torch.Tensor) -> tuple[Any, list[PooledPair]]:
        """Run the model once.

        Parameters
        ----------
        images : torch.Tensor
            B images, as the model takes them.

        Returns
        -------
        output
            What the model returned, bit for bit what it returns unwatched.
        pairs : list of PooledPair
            One an activation call, in execution order.
        """
        self._pass = _Pass(images.shape[0])
        with contextlib.ExitStack() as stack:
            stack.enter_context(_marked(images, self._model))
            for module, name in self._names.items():
                for handle in self._watch(module, name):
                    stack.callback(handle.remove)
            stack.enter_context(_FunctionMode(self._pass))
            output = self._model(images)
        return output, self._pass.pairs

    def _watch(self, module: nn.Module, name: str) -> Iterator[Any]:
        state = self._pass
        enter: Callable[..., None]
        leave: Callable[..., None]
        if isinstance(module, nn.MultiheadAttention):
            enter, leave = state.enter_attention, state.leave_attention
        elif (activation := activation_of(module)) is not None:
            enter, leave = state.enter_activation(name, activation), state.leave_activation
        else:
            enter, leave = state.enter_module(name), state.leave_module
        yield module.register_forward_pre_hook(enter, with_kwargs=True)
        yield module.register_forward_hook(leave, with_kwargs=True, always_call=True)


@dataclass(frozen=True, slots=True)
class _Open:
    """An activation that has been entered and not left."""

    name: str
    activation: str
    call: int
    layout: Layout
    text: str
    x: torch.Tensor | None
    resolution: float
    reason: str | None


class _Pass:
    """What one forward pass has shown so far."""

    def __init__(self, images: int) -> None:
        self.images = images
        self.pairs: list[PooledPair] = []
        self._calls: Counter[tuple[str, str | None]] = Counter()
        # Each stack holds what was entered with the module that entered it.
        self._path: list[tuple[nn.Module | None, str]] = [(None, "")]
        #: Activation modules entered; None for those inside another or independent of the input.
        self._inside: list[tuple[nn.Module, _Open | None]] = []
        self._paused: list[tuple[nn.Module, Any]] = []

    # Hooks of ordinary modules keep the path that names functional calls.

    def enter_module(self, name: str) -> Callable[..., None]:
        return lambda module, _args, _kwargs: self._path.append((module, name))

    def leave_module(self, module: nn.Module, _args: Any, _kwargs: Any, _output: Any) -> None:
        _leave(self._path, module)

    # An active torch function mode makes nn.MultiheadAttention leave its fused kernel, which
    # moves the last bits: it is kept off there. There is no activation inside.

    def enter_attention(self, module: nn.Module, _args: Any, _kwargs: Any) -> None:
        guard = torch._C.DisableTorchFunction()
        guard.__enter__()
        self._paused.append((module, guard))

    def leave_attention(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if _entered(self._paused, module):
            _leave(self._paused, module).__exit__(None, None, None)
        query = _first(args, kwargs, "query")
        if query is not None and isinstance(output, tuple) and (layout := layout_of(query)):
            mark(output[0], layout)

    # Activation modules.

    def enter_activation(self, name: str, activation: str) -> Callable[..., None]:
        def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
            target = None if self._inside else _first(args, kwargs, "input")
            entered = None if target is None else self._open(name, None, activation, target)
            self._inside.append((module, entered))

        return enter

    def leave_activation(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        entered = _leave(self._inside, module)
        # Hooks run after an exception too, and then without an output.
        if not isinstance(output, torch.Tensor):
            return
        target = _first(args, kwargs, "input")
        known = layout_of(target) if target is not None else None
        if known is not None and layout_of(output) is None:
            # Scripted or custom kernels inside hide the call that made the output. What is unknown
            # stays unknown: taken for constant, all that follows would be left out.
            mark(output, known)
        if entered is not None:
            self._close(entered, output)

    # Functional activations and every other call.

    def call(self, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        activation = None if self._inside else activation_called(function)
        entered = None
        if activation is not None and (target := _first(args, kwargs, "input")) is not None:
            entered = self._open(self._path[-1][1], activation, activation, target)
        output = function(*args, **kwargs)
        follow(function, args, kwargs, output)
        if entered is not None:
            self._close(entered, output)
        return output

    def _open(
        self, path: str, function: str | None, activation: str, tensor: torch.Tensor
    ) -> _Open | None:
        layout = layout_of(tensor)
        if layout == CONSTANT:
            return None
        self._calls[path, function] += 1
        call = self._calls[path, function]
        # Where nothing at all is known, a matrix is taken as images x channels; what was known
        # and got lost on the way is not guessed.
        layout = layout or (Layout(0, (1,)) if tensor.ndim == 2 else Layout(None, ()))
        x, reason = self._pool(tensor, layout)
        return _Open(
            site_name(path, function, call),
            activation,
            call,
            layout,
            layout.describe(tensor.shape, self.images),
            x,
            torch.finfo(tensor.dtype).eps if tensor.is_floating_point() else 0.0,
            reason,
        )

    def _close(self, entered: _Open, output: torch.Tensor) -> None:
        y, reason = self._pool(output, entered.layout)
        self.pairs.append(
            PooledPair(
                entered.name,
                entered.activation,
                entered.call,
                entered.text,
                entered.x,
                y,
                entered.resolution,
                entered.reason or reason,
            )
        )

    def _pool(self, tensor: torch.Tensor, layout: Layout) -> tuple[torch.Tensor | None, str | None]:
        # Pooling is our own arithmetic: the mode must not see it.
        with torch._C.DisableTorchFunction():
            try:
                return pool(tensor, layout, self.images), None
            except CaptureError as error:
                return None, error.message


def _entered(stack: list[Any], module: nn.Module) -> bool:
    # Where another's hook raised before ours ran, the module is left without having been entered.
    return bool(stack) and stack[-1][0] is module


def _leave(stack: list[Any], module: nn.Module) -> Any:
    """Return what the module had entered, or None."""
    return stack.pop()[1] if _entered(stack, module) else None


def _first(args: Any, kwargs: dict[str, Any], name: str) -> torch.Tensor | None:
    value = args[0] if args else kwargs.get(name, kwargs.get("x", kwargs.get("self")))
    return value if isinstance(value, torch.Tensor) else None


class _FunctionMode(TorchFunctionMode):
    def __init__(self, state: _Pass) -> None:
        super().__init__()
        self._state = state

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self._state.call(func, args, kwargs or {})


@contextlib.contextmanager
def _marked(images: torch.Tensor, model: nn.Module) -> Iterator[None]:
    """Mark the network's input and the tensors it holds for the length of one pass."""
    held = [
        tensor
        for module in model.modules()
        for tensor in (*module.buffers(recurse=False), *vars(module).values())
        if isinstance(tensor, torch.Tensor)
    ]
    for tensor in held:
        mark(tensor, CONSTANT)
    mark(images, input_layout(images))
    try:
        yield
    finally:
        for tensor in (*held, images):
            unmark(tensor)


def _refuse_hidden(names: dict[nn.Module, str]) -> None:
    """Refuse what runs activations in a place that neither hooks nor modes can see."""
    for module, name in names.items():
        reason = _hidden(module)
        if reason is not None:
            where = name or "the model itself"
            raise CaptureError(f"{where} is a {type(module).__name__}: {reason[0]}", hint=reason[1])


def _hidden(module: nn.Module) -> tuple[str, str] | None:
    if isinstance(module, torch.jit.ScriptModule):
        return "compiled TorchScript hides its activations", "measure the Python model instead"
    if type(module).__name__ == "OptimizedModule":
        return "torch.compile hides its activations", "measure the model before torch.compile"
    if isinstance(module, (nn.RNNBase, nn.RNNCellBase)):
        return "its gates are fused into one kernel", "recurrent networks cannot be measured yet"
    fused = isinstance(module, nn.TransformerEncoderLayer)
    if fused and torch.backends.mha.get_fastpath_enabled():
        return (
            "its fused kernel hides the activation",
            "call torch.backends.mha.set_fastpath_enabled(False) before measuring",
        )
    return None
