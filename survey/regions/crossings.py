"""Exact linear regions of a piecewise linear network along a segment.

Where all units of the calls so far are affine between neighbouring points of the segment, the
values that enter the next call are too, so that the times at which its units change their piece
follow by interpolation. They become points, call by call in the order of execution: no step width
is chosen, and no crossing is missed between two points.

References
----------
Sotoudeh and Thakur 2019, "Computing Linear Restrictions of Neural Networks", arXiv:1908.06214.
Gamba et al. 2022, "Are All Linear Regions Created Equal?", arXiv:2202.11749.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from survey.errors import InputError, NotPiecewiseLinear
from survey.regions import MOST_SIDE
from survey.regions.bends import Bend
from survey.regions.deviation import absolute_deviation
from survey.regions.line import Line, check, nothing
from survey.regions.watched_network import WatchedNetwork

#: Regions above which tracing does not finish.
MOST_REGIONS = 1_000_000

#: Times nearer than this are one.
_NEAR = 1e-12

#: Where between two points affinity is checked: off the middle, which odd functions pass as well.
_INSIDE = 0.381966

#: The largest difference from affine inside a region, as a share of the largest output.
_AFFINE = 1e-9

_HINT = "the Hamming density (survey.hamming_density) bounds their number from below at any size"


@dataclass(frozen=True, slots=True)
class Crossings:
    """The linear regions along a segment, and what crosses from each to the next."""

    #: Where regions end: from 0 to 1, regions + 1.
    knots: torch.Tensor
    #: The network's outputs there, (regions + 1) x outputs.
    outputs: torch.Tensor
    #: The segment's Euclidean length.
    distance: float
    #: When a unit changes its piece, a time for each change, increasing.
    times: torch.Tensor
    #: For each change the name of the call.
    sites: tuple[str, ...]
    #: For each change the unit, counted through the call's values for one input.
    units: torch.Tensor

    @property
    def regions(self) -> int:
        """The number of linear regions."""
        return len(self.knots) - 1

    @property
    def density(self) -> int:
        """The number of times at which any unit changes its piece: regions - 1."""
        return self.regions - 1

    @property
    def absolute_deviation(self) -> torch.Tensor:
        """The deviation of each output from a straight line; see ``deviation``."""
        return absolute_deviation(self.knots, self.outputs, self.distance)


def linear_regions(
    network: nn.Module,
    start: torch.Tensor,
    end: torch.Tensor,
    *,
    tick: Callable[[], None] = nothing,
) -> Crossings:
    """Return the linear regions of a network between two inputs.

    Parameters
    ----------
    network : torch.nn.Module
        Made of affine calls and of ReLU, LeakyReLU, PReLU, ReLU6, Hardtanh, hard sigmoid, soft
        shrinkage, absolute values, clamps, extremes and max-pooling. A copy of it computes in eval
        mode and float64.
    start, end : torch.Tensor
        One input each, without a batch axis. Images have at most 64 x 64 positions.
    tick : callable, optional
        Called before every pass, such as to end a computation by an exception.

    Returns
    -------
    Crossings
        Of all units, whether or not the outputs bend where they change.

    Raises
    ------
    NotPiecewiseLinear
        If a call is not, or is not known to be; the message names it.
    CaptureError
        If the network holds something whose calls cannot be seen.
    InputError
        If the ends are no segment, the network does not take them, or there is too much to trace.
    """
    check(start, end)
    check_size(start)
    return traced(Line(WatchedNetwork(network, exact=True), start, end, tick))


def check_size(image: torch.Tensor) -> None:
    """Refuse images whose regions are too many to trace.

    Raises
    ------
    InputError
        If it has more than 64 x 64 positions.
    """
    if image.ndim > 2 and image[0].numel() > MOST_SIDE**2:
        shape = " x ".join(map(str, image.shape))
        raise InputError(
            f"linear regions are traced up to {MOST_SIDE} x {MOST_SIDE} positions, not {shape}",
            hint=_HINT,
        )


def traced(line: Line) -> Crossings:
    """Return the linear regions along a line; see ``linear_regions``."""
    points = _points(line)
    inside = points[:-1] + _INSIDE * points.diff()
    changes = line.changes(inside)
    outputs = line.outputs(points)
    _check_affine(outputs, changes.outputs)
    # A unit that changes twice within the smallest gap is where it was.
    kept = torch.zeros(len(points), dtype=torch.bool, device=points.device)
    kept[changes.at + 1] = True
    kept[[0, -1]] = True
    order = changes.at.argsort(stable=True)
    sites = tuple(changes.sites[number] for number in changes.site[order].tolist())
    return Crossings(
        knots=points[kept].cpu(),
        outputs=outputs[kept].cpu(),
        distance=line.distance,
        times=points[changes.at[order] + 1].cpu(),
        sites=sites,
        units=changes.unit[order].cpu(),
    )


class _Crossed(Exception):
    """A call has units that change their piece between points."""

    def __init__(self, number: int, points: torch.Tensor) -> None:
        self.number = number
        self.points = points


def _points(line: Line) -> torch.Tensor:
    """Return times between which every unit is on one piece."""
    waiting = [(line.times([0.0, 1.0]), 0)]
    finished: list[torch.Tensor] = []
    while waiting:
        points, done = waiting.pop()
        try:
            line.run(points, _inserting(points, done))
        except _Crossed as crossed:
            waiting += [(part, crossed.number + 1) for part in _parts(crossed.points, line.batch)]
            _check_count(sum(map(len, [*finished, *(part for part, _ in waiting)])))
        else:
            finished.append(points)
    points = torch.cat(finished).sort().values
    return points[points.diff(prepend=points[:1] - 1) > 0]


def _inserting(points: torch.Tensor, done: int) -> Callable[[int, str, Sequence[Bend]], None]:
    """Return what ends a pass at the first call from number ``done`` on that adds points."""

    def visit(number: int, _site: str, bends: Sequence[Bend]) -> None:
        if number < done:
            return
        times = torch.cat([bend.crossing_times(points) for bend in bends])
        if len(more := _merged(points, times)) > len(points):
            raise _Crossed(number, more)

    return visit


def _merged(points: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
    """Return points with new ones, but for those too near to others."""
    times = times.sort().values
    after = torch.searchsorted(points, times).clamp(1, len(points) - 1)
    apart = torch.minimum(times - points[after - 1], points[after] - times) > _NEAR
    times = times[apart]
    times = times[times.diff(prepend=times[:1] - 1) > _NEAR]
    return torch.cat([points, times]).sort().values


def _parts(points: torch.Tensor, batch: int) -> list[torch.Tensor]:
    """Return neighbouring parts of points, each of which shares its ends."""
    return [points[i : i + batch] for i in range(0, len(points) - 1, batch - 1)]


def _check_count(points: int) -> None:
    if points > MOST_REGIONS:
        raise InputError(f"the segment has more than {MOST_REGIONS:,} linear regions", hint=_HINT)


def _check_affine(outputs: torch.Tensor, inside: torch.Tensor) -> None:
    """Refuse a network whose outputs bend between points: something in it was not seen."""
    straight = torch.lerp(outputs[:-1], outputs[1:], _INSIDE)
    gap = (inside - straight).abs().amax() if inside.numel() else 0.0
    if gap > _AFFINE * outputs.abs().amax():
        raise NotPiecewiseLinear(
            f"the outputs differ from affine by {float(gap):.1g} where no unit that is seen bends",
            hint="a jump, a compiled kernel or a value that depends on the other inputs does that",
        )
