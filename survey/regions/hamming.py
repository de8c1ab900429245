"""The Hamming density: units that change their sign between few points of a segment.

Of a unit's crossings between two neighbouring points, it sees one or none: it is a lower bound of
the crossings of all units, which more points raise. A region that several units bound is counted
with each of them, and max-pooling is not looked at.

References
----------
Novak et al. 2018, "Sensitivity and Generalization in Neural Networks", arXiv:1802.08760.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from survey.regions.deviation import trapezoid_deviation
from survey.regions.line import Changes, Line, nothing
from survey.regions.watched_network import WatchedNetwork


@dataclass(frozen=True, slots=True)
class HammingDensity:
    """The units of a network that change their sign along a segment."""

    #: Changes of sign between neighbouring points.
    flips: int
    #: Of these, the changes that half as many steps see.
    halved: int
    #: Units that were looked at; one with two breakpoints counts twice.
    units: int
    #: Steps that the segment was divided into.
    segments: int
    #: The segment's Euclidean length.
    distance: float
    #: The deviation of each output from a straight line, by the trapezoid rule.
    deviation: torch.Tensor


def hamming_density(
    network: nn.Module,
    start: torch.Tensor,
    end: torch.Tensor,
    segments: int = 64,
    *,
    tick: Callable[[], None] = nothing,
) -> HammingDensity:
    """Return how many units change their sign between two inputs, a lower bound.

    Parameters
    ----------
    network : torch.nn.Module
        As for ``linear_regions``. A copy of it computes in eval mode and in its own type.
    start, end : torch.Tensor
        One input each, without a batch axis, of any size.
    segments : int
        Steps that the segment is divided into; the network sees one input more.
    tick : callable, optional
        Called before every pass.

    Returns
    -------
    HammingDensity
        With the deviation by the trapezoid rule, which comes from the same passes.

    Raises
    ------
    NotPiecewiseLinear
        If a call is not, or is not known to be; the message names it.
    CaptureError
        If the network holds something whose calls cannot be seen.
    InputError
        If the ends are no segment, or the network does not take them.
    SettingsError
        If there is no step.
    """
    return counted(Line(WatchedNetwork(network, exact=False), start, end, tick), segments)


def counted(line: Line, segments: int) -> HammingDensity:
    """Return the Hamming density along a line; see ``hamming_density``."""
    times = line.steps(segments)
    changes = line.changes(times, signs=True)
    deviation = trapezoid_deviation(times, changes.outputs, line.distance).cpu()
    halved = _halved(changes)
    flips = len(changes.at)
    return HammingDensity(flips, halved, changes.units, segments, line.distance, deviation)


def _halved(changes: Changes) -> int:
    """Return how many units have another sign after every second step: those that change once."""
    pairs = torch.stack([changes.at // 2, changes.site, changes.unit])
    return int((pairs.unique(dim=1, return_counts=True)[1] % 2).sum())
