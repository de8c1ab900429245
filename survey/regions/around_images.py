"""Linear regions and deviations along the closed paths around images, a row an image.

A measure of a network is one ``mean_of`` of these: the path is the unit, since its segments share
their ends. Segments between equal anchors, as of an image of one colour, have no length and are
left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn

from survey.errors import NotPiecewiseLinear
from survey.regions.closed_paths import closed_paths
from survey.regions.crossings import check_size, traced
from survey.regions.deviation import trapezoid_deviation
from survey.regions.hamming import counted
from survey.regions.line import Line, nothing
from survey.regions.watched_network import WatchedNetwork

#: Images in a pass.
_TOGETHER = 64


@dataclass(frozen=True, slots=True)
class PathMean:
    """The mean over closed paths of the mean over a path's segments."""

    #: None where no path has a value.
    value: float | None
    #: None for fewer than two paths.
    standard_error: float | None
    #: Paths with a segment that has a value.
    paths: int


@dataclass(frozen=True, slots=True)
class PathScores:
    """What was measured on the segments of n closed paths, each n x K; NaN for those left out."""

    #: Euclidean length of each segment.
    distance: torch.Tensor
    #: Crossings, or changes of sign; all NaN for a network that is not piecewise linear.
    crossings: torch.Tensor
    #: Euclidean norm over the outputs of the absolute deviation.
    deviation: torch.Tensor
    #: Root of the outputs' summed variances over the images; NaN for a single image.
    spread: float
    #: Units that the changes of sign are counted over; None where regions are exact.
    units: int | None = None
    #: Why there are no crossings.
    reason: str | None = None

    @property
    def bend(self) -> torch.Tensor:
        """The mean deviation along a segment: it does not grow with its length."""
        return self.deviation / self.distance

    @property
    def relative_bend(self) -> torch.Tensor:
        """The same in units of the outputs' deviation over the images: comparable over networks."""
        return self.bend / self.spread if self.spread > 0 else self.bend * torch.nan


def exact_scores(
    model: nn.Module,
    images: torch.Tensor,
    anchors: int = 8,
    radius: float | None = None,
    tick: Callable[[], None] = nothing,
) -> PathScores:
    """Return the linear regions and the absolute deviation, exactly.

    Parameters
    ----------
    model : torch.nn.Module
        As for ``linear_regions``.
    images : torch.Tensor
        n x c x h x w, as the network takes them, of at most 64 x 64 positions.
    anchors, radius
        Of each path; see ``closed_paths``.
    tick : callable, optional
        Called before every pass.

    Raises
    ------
    NotPiecewiseLinear
        If the network is not, or is not known to be.
    InputError
        If the images are none, or have too many positions.
    """
    paths = closed_paths(images.double(), anchors, radius)
    check_size(images[0])
    network = WatchedNetwork(model, exact=True)

    def on(start: torch.Tensor, end: torch.Tensor) -> tuple[float, torch.Tensor]:
        crossings = traced(Line(network, start, end, tick))
        return float(crossings.density), crossings.absolute_deviation

    return _scores(network, images, paths, on)


def estimated_scores(
    model: nn.Module,
    images: torch.Tensor,
    anchors: int = 8,
    radius: float | None = None,
    segments: int = 64,
    tick: Callable[[], None] = nothing,
) -> PathScores:
    """Return changes of sign, a lower bound of the crossings, and the deviation by trapezoids.

    Parameters
    ----------
    model : torch.nn.Module
        Any network. One that is not piecewise linear has deviations alone, and a reason.
    images : torch.Tensor
        n x c x h x w, as the network takes them, of any size.
    anchors, radius
        Of each path; see ``closed_paths``.
    segments : int
        Steps that each segment of a path is divided into.
    tick : callable, optional
        Called before every pass.
    """
    paths = closed_paths(images, anchors, radius)
    network = WatchedNetwork(model, exact=False)
    units: int | None = None
    reason: str | None = None

    def on(start: torch.Tensor, end: torch.Tensor) -> tuple[float, torch.Tensor]:
        nonlocal units, reason
        if reason is None:
            try:
                hamming = counted(Line(network, start, end, tick), segments)
            except NotPiecewiseLinear as error:
                reason = error.message
            else:
                units = hamming.units
                return float(hamming.flips), hamming.deviation
        line = Line(network, start, end, tick, watched=False)
        times = line.steps(segments)
        return math.nan, trapezoid_deviation(times, line.outputs(times), line.distance)

    scores = _scores(network, images, paths, on)
    return replace(scores, units=units, reason=reason)


def mean_of(values: torch.Tensor) -> PathMean:
    """Return the mean over paths, with its standard error.

    Parameters
    ----------
    values : torch.Tensor
        n x K, a row a path; NaN for segments that are left out.
    """
    paths = values.nanmean(1)
    paths = paths[~paths.isnan()]
    if not len(paths):
        return PathMean(None, None, 0)
    error = paths.std().item() / math.sqrt(len(paths)) if len(paths) > 1 else None
    return PathMean(paths.mean().item(), error, len(paths))


def _scores(
    network: WatchedNetwork,
    images: torch.Tensor,
    paths: torch.Tensor,
    on: Callable[[torch.Tensor, torch.Tensor], tuple[float, torch.Tensor]],
) -> PathScores:
    """Measure every segment of every path that has a length."""
    ends = paths.roll(-1, 1)
    distance = (ends - paths).flatten(2).double().norm(dim=2).cpu()
    crossings, deviation = torch.full((2, *distance.shape), torch.nan, dtype=torch.float64)
    for path, segment in (distance > 0).nonzero().tolist():
        count, each = on(paths[path, segment], ends[path, segment])
        crossings[path, segment] = count
        deviation[path, segment] = each.norm()
    outputs = torch.cat([network.run(part) for part in images.split(_TOGETHER)]).double()
    spread = outputs.var(0).sum().sqrt().item() if len(images) > 1 else math.nan
    return PathScores(distance, crossings, deviation, spread)
