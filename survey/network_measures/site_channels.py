"""The activation calls of a forward pass, seen channel by channel."""

from __future__ import annotations

import math

import torch

from survey.capture.arguments import gate
from survey.capture.axes import Axes
from survey.capture.follower import Follower
from survey.errors import CaptureError


class SiteCall:
    """One activation call: its input, kept from before the call runs, and later its output.

    Parameters
    ----------
    name : str
        The site's.
    tensor : torch.Tensor
        The call's input.
    axes : Axes
        Of what is activated.
    half : int or None
        For a call that gates one half by the other, the axis that it halves; its gate is the
        activation then.
    images : int
        Images in the pass.
    """

    def __init__(
        self, name: str, tensor: torch.Tensor, axes: Axes, half: int | None, images: int
    ) -> None:
        self.name = name
        self._axes, self._images = axes, images
        #: What a gate multiplies; None for all other activations.
        self._gated: torch.Tensor | None = None
        activated = tensor
        if half is not None:
            self._gated, activated = tensor.chunk(2, half)
        # An activation in place overwrites its input.
        self._input = activated.clone()

    def pair(self, output: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the activation's input and output, each c x everything else.

        Raises
        ------
        CaptureError
            If it is not known which axis holds the channels.
        """
        activated = output if self._gated is None else gate(self._input)
        return self._rows(self._input), self._rows(activated)

    def replace(
        self, output: torch.Tensor, chosen: torch.Tensor, slope: torch.Tensor, offset: torch.Tensor
    ) -> None:
        """Write ``slope * input + offset`` into some channels of the call's output.

        Parameters
        ----------
        output : torch.Tensor
            What the call returned.
        chosen : torch.Tensor
            c booleans.
        slope, offset : torch.Tensor
            c numbers each.
        """
        values = self._spread(slope) * self._input + self._spread(offset)
        if self._gated is not None:
            values = self._gated * values
        output.copy_(torch.where(self._spread(chosen), values, output))

    def _rows(self, tensor: torch.Tensor) -> torch.Tensor:
        view, layout = self._axes.unfolded(tensor, self._images)
        if not layout.channels:
            shape = tuple(tensor.shape)
            raise CaptureError(f"{self.name}: which axis of {shape} holds the channels is unknown")
        channels = math.prod(view.shape[axis] for axis in layout.channels)
        return view.movedim(layout.channels, tuple(range(len(layout.channels)))).reshape(
            channels, -1
        )

    def _spread(self, values: torch.Tensor) -> torch.Tensor:
        """Return a number a channel as a tensor of the input's shape."""
        if values.dtype != torch.bool:
            values = values.to(self._input.dtype)
        view, layout = self._axes.unfolded(self._input, self._images)
        alone = [size if i in layout.channels else 1 for i, size in enumerate(view.shape)]
        values = values.to(self._input.device).view(alone)
        return values.expand(view.shape).reshape(self._input.shape)


class SiteFollower(Follower):
    """Takes every activation call of a pass."""

    def __init__(self) -> None:
        self._images = 0
        self._open: dict[int, SiteCall] = {}

    def wants(self, name: str) -> bool:  # noqa: ARG002 - some followers choose
        """Return whether a site's calls are taken."""
        return True

    def closed(self, call: SiteCall, output: torch.Tensor) -> None:
        """Take a call that has run, with its output."""
        raise NotImplementedError

    def begin(self, images: torch.Tensor) -> None:
        """Take the network's input."""
        self._images = len(images)

    def open(
        self, number: int, name: str, tensor: torch.Tensor, axes: Axes, half: int | None
    ) -> None:
        """Keep the input of an activation site that is about to run."""
        if self.wants(name):
            self._open[number] = SiteCall(name, tensor, axes, half, self._images)

    def close(self, number: int, output: torch.Tensor) -> None:
        """Take the output of an activation site that has run."""
        if (call := self._open.pop(number, None)) is not None:
            self.closed(call, output)
