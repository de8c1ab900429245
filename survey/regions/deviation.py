"""The absolute deviation of outputs from the straight line between the ends of a segment.

For each output k, with x(t) on a segment of Euclidean length L,

    AD_k = L * integral over t of | f_k(x(t)) - ((1 - t) f_k(x(0)) + t f_k(x(1))) |

References
----------
Gamba et al. 2022, "Are All Linear Regions Created Equal?", arXiv:2202.11749, Figure 1.
"""

from __future__ import annotations

import torch


def absolute_deviation(times: torch.Tensor, outputs: torch.Tensor, distance: float) -> torch.Tensor:
    """Return the deviation of outputs that are affine between neighbouring times, exactly.

    Parameters
    ----------
    times : torch.Tensor
        n, from 0 to 1, increasing.
    outputs : torch.Tensor
        At these times, n x outputs.
    distance : float
        The segment's Euclidean length.

    Returns
    -------
    torch.Tensor
        One an output.
    """
    first, last, width = _gaps(times, outputs)
    size = first.abs() + last.abs()
    # Where the gap passes zero there are two triangles.
    crossed = (first.square() + last.square()) / size.clamp_min(torch.finfo(size.dtype).tiny)
    return distance * (width / 2 * torch.where(first * last < 0, crossed, size)).sum(0)


def trapezoid_deviation(
    times: torch.Tensor, outputs: torch.Tensor, distance: float
) -> torch.Tensor:
    """Return the deviation of any outputs by the trapezoid rule; see ``absolute_deviation``."""
    first, last, width = _gaps(times, outputs)
    return distance * (width / 2 * (first.abs() + last.abs())).sum(0)


def _gaps(
    times: torch.Tensor, outputs: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gaps to the straight line at both ends of each interval, and its width."""
    straight = (1 - times)[:, None] * outputs[0] + times[:, None] * outputs[-1]
    gap = outputs - straight
    return gap[:-1], gap[1:], times.diff()[:, None]
