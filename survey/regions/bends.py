"""Where values that are affine between neighbouring points of a segment change their piece.

A unit is on one piece of its function between two breakpoints. ``Signs`` are units whose piece
changes with the sign of a value, such as those of a ReLU. Of ``Winners`` the piece is which of
several values is the largest, such as of those of a max-pooling.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

#: Values so small beside their unit's largest are zero: the unit changes its piece at that point.
_ZERO = 1e-12

#: Units whose largest value is below this share of the call's are measured by the call's.
_FAINT = 0.1

#: Roundings, in units of the machine epsilon, within which a value is zero or two are alike.
_ROUNDINGS = 16


@dataclass(frozen=True, slots=True)
class Signs:
    """Units that change their piece where a value passes zero."""

    #: n x units.
    values: torch.Tensor

    @property
    def width(self) -> int:
        """Values held for each point."""
        return self.values.shape[1]

    @property
    def highest(self) -> torch.Tensor:
        """The value of each unit, n x units."""
        return self.values

    def crossing_times(self, times: torch.Tensor) -> torch.Tensor:
        """Return the times strictly between points at which a value passes zero.

        Parameters
        ----------
        times : torch.Tensor
            Of the n points, increasing; values are affine in time between neighbours.
        """
        scale = self.values.abs().amax(0)
        floor = _ZERO * scale.clamp_min(_FAINT * _largest(self.values))
        signs = self.values.sign().mul_(self.values.abs() > floor)
        at, unit = (signs[:-1] * signs[1:] < 0).nonzero(as_tuple=True)
        before, after = self.values[at, unit], self.values[at + 1, unit]
        return torch.lerp(times[at], times[at + 1], before / (before - after))

    def pieces(self) -> torch.Tensor:
        """Return whether each value is positive."""
        return self.values > _rounding(self.values)


@dataclass(frozen=True, slots=True)
class Winners:
    """Units whose piece is which of k values is the largest."""

    #: n x units x k.
    values: torch.Tensor

    @property
    def width(self) -> int:
        """Values held for each point."""
        return self.values[0].numel()

    @property
    def highest(self) -> torch.Tensor:
        """The largest value of each unit, n x units."""
        return self.values.amax(-1)

    def crossing_times(self, times: torch.Tensor) -> torch.Tensor:
        """Return the times of the corners of the upper envelope of the k lines; see ``Signs``."""
        floor = _ZERO * _largest(self.values)
        first, last = self.values[:-1], self.values[1:]
        winner = _best(first, last - first, floor)[..., None]
        overtaken = last.amax(-1) - last.gather(-1, winner)[..., 0] > floor
        at, unit = overtaken.nonzero(as_tuple=True)
        line, share = _corners(first[at, unit], last[at, unit], winner[at, unit], floor)
        return torch.lerp(times[at[line]], times[at[line] + 1], share)

    def pieces(self) -> torch.Tensor:
        """Return the first of the largest values of each unit."""
        largest = self.values.amax(-1, keepdim=True)
        return (self.values >= largest - _rounding(self.values)).byte().argmax(-1)


#: The units of one call, at n points in order.
Bend = Signs | Winners


def _corners(
    first: torch.Tensor, last: torch.Tensor, winner: torch.Tensor, floor: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Walk along the upper envelopes of m sets of k lines, from corner to corner.

    Parameters
    ----------
    first, last : torch.Tensor
        The lines' ends, m x k.
    winner : torch.Tensor
        The line that each envelope begins with, m x 1.
    floor : torch.Tensor
        Differences up to this are none.

    Returns
    -------
    line, share : torch.Tensor
        The set of each corner, and its place between 0 and 1.
    """
    sets = torch.arange(len(first), device=first.device)
    lines, shares = [sets[:0]], [first[:0, 0]]
    while len(sets):
        behind = first.gather(1, winner) - first
        ahead = last - last.gather(1, winner)
        share = torch.where(ahead > floor, behind / (behind + ahead), torch.inf)
        nearest = share.amin(1, keepdim=True)
        on = nearest[:, 0] < 1
        # Of lines that meet in one corner the steepest goes on.
        steepness = torch.where(share <= nearest + _ZERO, last - first, -torch.inf)
        winner = steepness.argmax(1, keepdim=True)[on]
        sets, first, last = sets[on], first[on], last[on]
        lines.append(sets)
        shares.append(nearest[on, 0])
    return torch.cat(lines), torch.cat(shares)


def _best(values: torch.Tensor, slopes: torch.Tensor, floor: torch.Tensor) -> torch.Tensor:
    """Return the line that is largest just after a point: of equal ones the steepest."""
    alike = values >= values.amax(-1, keepdim=True) - floor
    return torch.where(alike, slopes, -torch.inf).argmax(-1)


def _rounding(values: torch.Tensor) -> torch.Tensor:
    # Half precision is summed in float32, and its own steps near zero are far finer.
    epsilon = min(torch.finfo(values.dtype).eps, torch.finfo(torch.float32).eps)
    return _ROUNDINGS * epsilon * _largest(values)


def _largest(values: torch.Tensor) -> torch.Tensor:
    return values.abs().amax() if values.numel() else values.new_zeros(())
