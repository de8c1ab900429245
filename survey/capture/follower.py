"""What else is followed through a forward pass, from call to call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from survey.capture.axes import Axes


class Follower:
    """Follows something of every tensor of a pass, beside its layout and its lineage.

    Its methods run where no torch function mode sees their calls, and do nothing by default.
    """

    def begin(self, images: torch.Tensor) -> None:
        """Take the network's input."""

    def follow(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], out: Any
    ) -> None:
        """Take a call that is no activation site, after it ran; see ``layout.follow``."""

    def open(
        self, number: int, name: str, tensor: torch.Tensor, axes: Axes, half: int | None
    ) -> None:
        """Take the input of an activation site that is about to run.

        Parameters
        ----------
        number : int
            The site's, in this pass.
        name : str
            Of the site.
        tensor : torch.Tensor
            The call's input.
        axes : Axes
            Of what is activated.
        half : int or None
            For a call that gates one half by the other, the axis that it halves.
        """

    def close(self, number: int, output: torch.Tensor) -> None:
        """Take the output of an activation site that has run."""

    def attend(self, value: torch.Tensor, output: torch.Tensor) -> None:
        """Take the values and the output of an attention layer, whose calls are not seen."""

    def end(self, output: Any) -> None:
        """Take what the network returned."""
