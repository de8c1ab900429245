"""Channels whose activations are replaced by affine maps, those first that change least."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from survey.capture.forward import Capture
from survey.network_measures.channel_moments import ChannelMoments
from survey.network_measures.site_channels import SiteCall, SiteFollower


class AffineOrder:
    """Every channel's least-squares affine map, and the order in which channels are replaced.

    Parameters
    ----------
    moments : mapping of str to ChannelMoments
        Of every site by name. Channels follow each other by squared correlation, the greatest
        first, those alike in the order of their sites.
    """

    def __init__(self, moments: Mapping[str, ChannelMoments]) -> None:
        self.maps = {name: each.affine_map() for name, each in moments.items()}
        correlations = [each.squared_correlation.cpu() for each in moments.values()]
        order = torch.cat(correlations).argsort(descending=True, stable=True)
        places = order.argsort().split([len(each) for each in correlations])
        self._places = dict(zip(moments, places, strict=True))
        self._count = len(order)

    def replaced(self, percentage: float) -> dict[str, torch.Tensor]:
        """Return which channels of every site are replaced, c booleans each."""
        count = round(self._count * percentage / 100)
        return {name: places < count for name, places in self._places.items()}


class AffineChannels(SiteFollower):
    """Runs a network with some channels' activations replaced; the network is not modified.

    Parameters
    ----------
    model : torch.nn.Module
        In eval mode.
    order : AffineOrder
        Has the maps.
    replaced : mapping of str to torch.Tensor
        Which channels of every site, c booleans each.
    """

    def __init__(
        self, model: nn.Module, order: AffineOrder, replaced: Mapping[str, torch.Tensor]
    ) -> None:
        super().__init__()
        self._capture = Capture(model)
        self._order = order
        self._replaced = {name: chosen for name, chosen in replaced.items() if chosen.any()}
        self._output: object = None

    def outputs(self, images: torch.Tensor) -> object:
        """Return what the network returns for some images."""
        with torch.no_grad():
            self._capture.follow(images, self)
        output, self._output = self._output, None
        return output

    def wants(self, name: str) -> bool:
        """Return whether a site has a channel that is replaced."""
        return name in self._replaced

    def closed(self, call: SiteCall, output: torch.Tensor) -> None:
        """Replace some channels of one call."""
        call.replace(output, self._replaced[call.name], *self._order.maps[call.name])

    def end(self, output: object) -> None:
        """Keep what the network returned."""
        self._output = output
