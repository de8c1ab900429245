"""A network whose ReLUs have a slope for each channel, which a penalty draws to 1.

A channel with slope alpha maps z to z where z > 0 and to alpha * z elsewhere: at 0 it is a ReLU and
at 1 it is linear. The penalty is the sum over all channels of |1 - alpha|^0.5.

References
----------
Mehmeti-Göpel and Disselhoff 2023, "Nonlinear Advantage: Trained Networks Might Not Be As Complex as
You Think", arXiv:2211.17180.
"""

from __future__ import annotations

import torch
from torch import nn

from survey.errors import CaptureError
from survey.eval_mode import evaluating
from survey.linearising.relu_calls import SlopedRelus, relu_calls
from survey.network_measures.base import NetworkScore
from survey.network_measures.path_length import path_length

#: Channels whose slope is closer to 1 than this are linear from then on.
FROZEN = 0.01


class LinearisedNetwork(nn.Module):
    """A network with channel-wise slopes in place of its ReLUs, all 0 at first.

    Parameters
    ----------
    model : torch.nn.Module
        Any network; its ReLUs are modules or functionals. It becomes a part of this one.
    images : torch.Tensor
        Two or more images, as the model takes them.

    Raises
    ------
    CaptureError
        If it has no ReLUs, one of them cannot be replaced, or its paths cannot be followed.
    """

    #: Whether each channel of all sites is frozen as linear.
    linear: torch.Tensor

    def __init__(self, model: nn.Module, images: torch.Tensor) -> None:
        super().__init__()
        self.model = model
        # Copied for each pass, since a network may change its input in place.
        self._images = images[:2].detach().clone()
        self.relus = relu_calls(model, self._images.clone())
        self._sizes = [site.channels for site in self.relus.sites]
        zeros = torch.zeros(sum(self._sizes), dtype=images.dtype, device=images.device)
        #: The slopes of all sites' channels, in execution order.
        self.slopes = nn.Parameter(zeros)
        self.register_buffer("linear", zeros.bool())
        for score in self.path_lengths().values():
            if score.value is None:
                raise CaptureError(f"its path length is not known: {score.reason}")

    def forward(self, images: torch.Tensor) -> object:
        """Return what the network returns with these slopes."""
        relus = SlopedRelus(self.relus, self.slopes.split(self._sizes))
        with relus:
            output = self.model(images)
        relus.require_all()
        return output

    def penalty(self) -> torch.Tensor:
        """Return the sum of |1 - alpha|^0.5 over all channels; frozen ones have none."""
        return (1 - self.slopes[~self.linear]).abs().sqrt().sum()

    @torch.no_grad()
    def freeze(self, before: torch.Tensor) -> None:
        """Make channels linear whose slope is within 0.01 of 1, or went past it in a step.

        Parameters
        ----------
        before : torch.Tensor
            The slopes before the step. A slope that moved from one side of 1 to the other has
            been within 0.01 of it on the way.
        """
        near = (self.slopes - 1).abs() < FROZEN
        passed = (self.slopes > 1) != (before > 1)
        self.linear |= near | passed
        self.slopes[self.linear] = 1.0

    def active(self) -> dict[str, torch.Tensor]:
        """Return for each site which of its channels are not linear, c booleans."""
        parts = (~self.linear.cpu()).split(self._sizes)
        return {site.name: part for site, part in zip(self.relus.sites, parts, strict=True)}

    def path_lengths(self) -> dict[str, NetworkScore]:
        """Return the path lengths in which linear channels do not count; see ``path_length``."""
        active = {name: channels[None] for name, channels in self.active().items()}
        with evaluating(self.model):
            return path_length(self.model, self._images.clone(), active)
