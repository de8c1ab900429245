"""The ReLU calls of a forward pass: which there are, and others in their place.

The sites and the axis of their channels are those of the capture. It runs once, on two images;
afterwards the calls are counted in their order, so that a training step costs little more than
without.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from survey.capture.activations import activation_called
from survey.capture.arguments import argument, called, first_tensor
from survey.capture.axes import Axes
from survey.capture.follower import Follower
from survey.capture.forward import Capture
from survey.errors import CaptureError
from survey.eval_mode import evaluating


@dataclass(frozen=True, slots=True)
class ReluSite:
    """One ReLU call of a network, on c channels."""

    #: The site's.
    name: str
    #: c.
    channels: int
    #: The channel of each value of one image; axes along which it is the same have length 1.
    channel: torch.Tensor

    def sloped(self, tensor: torch.Tensor, slopes: torch.Tensor) -> torch.Tensor:
        """Return the call's result with c slopes for negative inputs."""
        shape = self.channel.shape
        if len(shape) > 1 and shape[1] == self.channels == self.channel.numel():
            # Of one number a channel on the second axis torch has a kernel, twice as fast.
            return functional.prelu(tensor, slopes.to(tensor.dtype))
        places = self.channel.flatten().to(slopes.device)
        slope = slopes.index_select(0, places).view(shape)
        return torch.where(tensor > 0, tensor, slope * tensor)


@dataclass(frozen=True, slots=True)
class ReluCalls:
    """The ReLU calls of every forward pass of a network."""

    #: One a call, in execution order; None for a call that is no site of its own, such as one on
    #: weights or one that is a part of another activation.
    calls: tuple[ReluSite | None, ...]
    #: The sites of all other activations, by name.
    others: tuple[str, ...]

    @property
    def sites(self) -> tuple[ReluSite, ...]:
        """The sites, in execution order."""
        return tuple(site for site in self.calls if site is not None)


def relu_calls(model: nn.Module, images: torch.Tensor) -> ReluCalls:
    """Find the ReLU calls of a network, modules and functionals alike.

    Parameters
    ----------
    model : torch.nn.Module
        Any network; it is run once in eval mode, and not modified.
    images : torch.Tensor
        Two or more images, as the model takes them.

    Raises
    ------
    CaptureError
        If there are none, the channels of one are not known or are one axis with the images, or
        the call of one is not seen, as in scripted code.
    """
    follower = _Follower()
    with evaluating(model), torch.no_grad(), _Watching(follower):
        sites = Capture(model).follow(images, follower)
    names = [site.site_name for site in sites if site.activation == "relu"]
    if not names:
        raise CaptureError("the network has no ReLU: there is nothing to linearise")
    calls = tuple(
        _site(name, axes, len(images)) if name in names else None for name, axes in follower.calls
    )
    known = {site.name for site in calls if site is not None}
    if unseen := [name for name in names if name not in known]:
        raise CaptureError(
            f"{unseen[0]} is a ReLU that no call of torch's relu computes: it cannot be replaced",
            hint="write it as nn.ReLU or torch.relu, outside of scripted code",
        )
    others = tuple(site.site_name for site in sites if site.activation != "relu")
    return ReluCalls(calls, others)


class _Follower(Follower):
    """Notes the site that is about to run, and those whose input torch's relu is called with."""

    def __init__(self) -> None:
        self._opened: tuple[torch.Tensor, str, Axes] | None = None
        #: Name and axes of the site of each call; without them for one that is none.
        self.calls: list[tuple[str | None, Axes]] = []

    def open(
        self,
        number: int,  # noqa: ARG002 - of the protocol
        name: str,
        tensor: torch.Tensor,
        axes: Axes,
        half: int | None,  # noqa: ARG002 - of the protocol
    ) -> None:
        """Note the input of an activation site that is about to run."""
        self._opened = tensor, name, axes

    def called(self, tensor: torch.Tensor) -> None:
        """Take the input of a call of torch's relu."""
        opened, self._opened = self._opened, None
        if opened is not None and opened[0] is tensor:
            self.calls.append(opened[1:])
        else:
            self.calls.append((None, Axes(())))


class _Watching(TorchFunctionMode):
    """Shows every call of torch's relu to a follower; entered outside of the capture."""

    def __init__(self, follower: _Follower) -> None:
        super().__init__()
        self._follower = follower

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if (tensor := _rectified(function, args, kwargs or {})) is not None:
            self._follower.called(tensor)
        return function(*args, **(kwargs or {}))


def _rectified(
    function: Callable[..., Any], args: Any, kwargs: dict[str, Any]
) -> torch.Tensor | None:
    """Return what a call of torch's relu rectifies; None for every other call."""
    return first_tensor(args, kwargs) if activation_called(function) == "relu" else None


def _site(name: str | None, axes: Axes, images: int) -> ReluSite:
    """Return a site from the axes of a call's input."""
    view, layout = axes.unfolded(torch.empty(axes.lengths(), dtype=torch.long), images)
    if not layout.channels:
        shape = tuple(axes.lengths())
        raise CaptureError(f"{name}: which axis of {shape} holds the channels is unknown")
    alone = [size if i in layout.channels else 1 for i, size in enumerate(view.shape)]
    numbers = torch.arange(math.prod(alone)).view(alone).expand(view.shape).reshape(axes.lengths())
    for axis, size in enumerate(numbers.shape):
        first = numbers.narrow(axis, 0, 1)
        if size and (numbers == first).all():
            numbers = first
    if any(numbers.shape[axis] > 1 for axis in axes.holding("images")):
        raise CaptureError(f"{name}: its channels are folded into the axis of the images")
    return ReluSite(str(name), math.prod(alone), numbers.contiguous())


class SlopedRelus(TorchFunctionMode):
    """Gives negative inputs of one pass's ReLUs a slope; to be entered around the model's call.

    Parameters
    ----------
    calls : ReluCalls
        Of the network.
    slopes : sequence of torch.Tensor
        c numbers for each site. At 0 a channel is a ReLU, at 1 it is the identity.
    """

    def __init__(self, calls: ReluCalls, slopes: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self._expected = calls.calls
        self._slopes = iter(slopes)
        self._trains = torch.is_grad_enabled()
        self._made = 0

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        tensor = _rectified(function, args, kwargs)
        if tensor is None:
            return function(*args, **kwargs)
        if self._made == len(self._expected):
            raise CaptureError(f"a forward pass has more than {self._made} ReLU calls: {_PATHS}")
        site = self._expected[self._made]
        self._made += 1
        if site is None:
            return function(*args, **kwargs)
        _require_alike(site, tensor)
        slopes = next(self._slopes)
        if self._trains and not torch.is_grad_enabled():
            raise CaptureError(
                f"{site.name} runs without gradients while the network trains",
                hint="torch.no_grad and activation checkpointing do that: build it without them",
            )
        if not _is_in_place(function, args, kwargs):
            return site.sloped(tensor, slopes)
        # What gradients need of the input is overwritten.
        return tensor.copy_(site.sloped(tensor.clone(), slopes))

    def require_all(self) -> None:
        """Raise CaptureError if the pass made fewer calls than it should."""
        if self._made < len(self._expected):
            raise CaptureError(
                f"a forward pass has {self._made} ReLU calls, and there were"
                f" {len(self._expected)}: {_PATHS}"
            )


_PATHS = "which are made depends on the images, or on whether the network trains"


def _require_alike(site: ReluSite, tensor: torch.Tensor) -> None:
    shape = site.channel.shape
    alike = tensor.ndim == len(shape) and all(
        length in (1, size) for length, size in zip(shape, tensor.shape, strict=True)
    )
    if not alike:
        raise CaptureError(
            f"{site.name} met {tuple(tensor.shape)}, and its channels are along {tuple(shape)}:"
            f" {_PATHS}"
        )


def _is_in_place(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> bool:
    named = called(function).split(".")[0].endswith("_")
    return named or bool(argument(args, kwargs, 1, "inplace"))
