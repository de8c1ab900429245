"""The active fraction: the share of channels whose activation is not affine on the data.

The path length counts every activation, whatever it does. On data many do little: a ReLU whose
inputs are all positive passes them on. Here a channel is active unless the squared correlation of
its activation's input and output, over images and positions, is at least 0.99, or its output is
constant. Path lengths are then taken again with all other channels counted as linear.

It is a measure of this survey, in no paper. That of Mehmeti-Göpel and Disselhoff 2023
(arXiv:2211.17180) trains slopes and reads no data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from survey.network_measures.base import NetworkQuantity, NetworkScore, SampledMeasure, Steps

if TYPE_CHECKING:
    import torch
    from torch import nn

    from survey.network_measures.channel_moments import ChannelMoments
    from survey.network_measures.sample import ImageSample

#: Images, and the least squared correlation of a channel that counts as affine.
IMAGES, AFFINE = 512, 0.99

#: Plain forward passes that one with the moments of every channel takes as long as: 1.3 to 3.6 were
#: measured.
PASSES = 2.0

SOURCE = "of this survey, in no paper"


def active_fraction(model: nn.Module, sample: ImageSample) -> Steps:
    """Compute the shares of active and constant channels of a network, and its active path length.

    Parameters
    ----------
    model : torch.nn.Module
        In eval mode.
    sample : ImageSample
        n images.

    Yields
    ------
    float
        The fraction of the images that have passed.

    Returns
    -------
    dict of str to NetworkScore
        ``active_fraction`` with the channels of every site in its details, ``constant_fraction``,
        and ``active_path_length`` and ``active_path_length_normalised``; or the reason for having
        none.
    """
    import torch

    from survey.errors import CaptureError
    from survey.network_measures.channel_moments import SiteMoments
    from survey.network_measures.path_length import path_length

    try:
        moments = SiteMoments(model)
        for places in sample.passes():
            moments.add(sample.inputs(places))
            yield (int(places[-1]) + 1) / len(sample)
    except CaptureError as error:
        return MEASURE.without_value(str(error))
    sites = moments.of_sites()
    active = {name: _active(each) for name, each in sites.items()}
    two = sample.inputs(torch.tensor([0, len(sample) - 1]))
    lengths = path_length(model, two, {name: mask[None] for name, mask in active.items()})
    return {**_fractions(sites, active, len(sample)), **_renamed(lengths, len(sample))}


def _active(moments: ChannelMoments) -> torch.Tensor:
    """Return whether each channel is active, constant ones not: their correlation counts as 1."""
    return (moments.squared_correlation < AFFINE).cpu()


def _fractions(
    sites: Mapping[str, ChannelMoments], active: Mapping[str, torch.Tensor], n: int
) -> dict[str, NetworkScore]:
    """Return the shares over the channels of all sites."""
    counts = {
        name: {
            "channels": len(active[name]),
            "active": int(active[name].sum()),
            "constant": int(moments.constant.sum()),
        }
        for name, moments in sites.items()
    }
    channels, some, constant = (
        sum(count[kind] for count in counts.values()) for kind in ("channels", "active", "constant")
    )
    details: dict[str, object] = {"affine": AFFINE, "channels": channels}
    of_sites = {**details, "sites": counts}
    return {
        "active_fraction": NetworkScore(some / channels, samples=n, details=of_sites),
        "constant_fraction": NetworkScore(constant / channels, samples=n, details=details),
    }


def _renamed(lengths: Mapping[str, NetworkScore], n: int) -> dict[str, NetworkScore]:
    return {f"active_{name}": replace(score, samples=n) for name, score in lengths.items()}


_QUANTITIES = (
    NetworkQuantity(
        name="active_fraction",
        sentence="Share of all sites' channels that are neither affine on the data nor constant.",
        formula=f"channels with corr(z, activation(z))^2 < {AFFINE} / channels",
        unit="1",
        low=0.0,
        high=1.0,
        source=SOURCE,
    ),
    NetworkQuantity(
        name="constant_fraction",
        sentence="Share of all sites' channels whose output is the same for all the data.",
        formula="channels with std(activation(z)) = 0 but for rounding / channels",
        unit="1",
        low=0.0,
        high=1.0,
        source=SOURCE,
    ),
    NetworkQuantity(
        name="active_path_length",
        sentence="The path length with active channels alone counted, all paths alike.",
        formula="sum over paths of the active channels on them / number of paths",
        unit="activations",
        low=0.0,
        high=math.inf,
        source=SOURCE,
    ),
    NetworkQuantity(
        name="active_path_length_normalised",
        sentence="The path length of a random walk with active channels alone counted.",
        formula="E[active channels on a walk from an output, one of k ways on each 1 / k]",
        unit="activations",
        low=0.0,
        high=math.inf,
        source=SOURCE,
    ),
)

MEASURE = SampledMeasure(
    name="active_fraction",
    version=2,
    quantities=_QUANTITIES,
    images=IMAGES,
    passes=lambda sites: PASSES,  # noqa: ARG005 - the same whatever the number of sites
    compute=active_fraction,
)
