"""The features that a network's last weighted layer reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from survey.capture.axis_origins import named
from survey.capture.expressions import depends
from survey.capture.follower import Follower
from survey.capture.forward import Capture
from survey.errors import CaptureError

_WEIGHTED = named("linear", "conv1d", "conv2d", "conv3d")


class LastFeatures(Follower):
    """Follows the input of the last convolution or linear layer of a pass.

    Parameters
    ----------
    model : torch.nn.Module
        In eval mode.
    """

    def __init__(self, model: nn.Module) -> None:
        self._capture = Capture(model)
        self._input: torch.Tensor | None = None

    def of(self, images: torch.Tensor) -> torch.Tensor:
        """Return the features of B images, unpooled: B x c, on the CPU.

        Raises
        ------
        CaptureError
            If no such layer is called, or its input does not have a row an image.
        """
        with torch.no_grad():
            self._capture.follow(images, self)
        if self._input is None:
            raise CaptureError("it calls no convolution and no linear layer on the images")
        if len(self._input) != len(images):
            raise CaptureError("the input of its last layer does not have a row an image")
        return self._input.flatten(1).cpu()

    def begin(self, images: torch.Tensor) -> None:  # noqa: ARG002 - of the protocol
        """Forget the features of the pass before."""
        self._input = None

    def follow(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        out: Any,  # noqa: ARG002 - its input is what is kept
    ) -> None:
        """Keep the input of a convolution or linear layer, until the next one."""
        if function in _WEIGHTED:
            features = args[0] if args else kwargs["input"]
            if depends(features):
                # What follows may change it in place.
                self._input = features.clone()
