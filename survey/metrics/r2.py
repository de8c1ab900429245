"""R2: the share of the output's variance that a linear fit from the input explains.

As published, the fit is scored on the images it was fitted on, and is 1 wherever there are at
least as many channels as images less one. The held-out value is that of a ridge regression
scored on each image in turn, fitted without it. Both come from one eigendecomposition of the
smaller Gram matrix, in which directions below 1e-6 of the strongest do not count; where the input's
channels are linearly dependent, rounding of the forward pass comes near that, and the published
value with it. The published value is a uniform mean over channels; the held-out one weighs
channels by their variance, so that channels that hardly ever fire do not decide it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from survey.metrics.base import INVARIANCES, Metric, NoValue, Quantity

if TYPE_CHECKING:
    import torch

    from survey.metrics.pair import Pair

#: The greatest move by rounding that a value may have: an estimate of it may be three times less
#: than the 1e-4 that counts.
MOST_MOVED = 3e-5

#: Powers of ten of the least and the greatest penalty tried, in units of the mean squared singular
#: value of the input, and how many: from where a fit is least squares to where it is the mean.
PENALTIES = (-8, 3, 23)


def r2(pair: Pair) -> float | NoValue:
    """Return the R2 of the least-squares fit with intercept, on its own images.

    The uniform mean over channels. A channel whose output is constant is predicted exactly and
    counts as 1.
    """
    import torch

    rank = len(pair.x.spectrum[1])
    if rank == 0:
        return NoValue("the input's variance underflows")
    if (move := rounding_move(pair)) > MOST_MOVED:
        return NoValue(f"rounding in the input's weakest directions moves it by some {move:.0e}")
    if rank == pair.images - 1:
        return 1.0
    explained = pair.once(loadings).square().sum(dim=0) / pair.y.column_scatter
    return float(torch.where(pair.y.constant_columns, 1.0, explained).mean())


def r2_heldout(pair: Pair) -> float | NoValue:
    """Return the share of the output's variance that ridge regression explains, left out.

    Each image in turn is predicted by the fit to all others, against the mean of all others, and
    squared errors are summed over images and channels. The penalty is the one of least
    generalised cross-validation error; it is chosen once, on all images.
    """
    directions, strengths = pair.x.spectrum
    if len(strengths) == 0:
        return NoValue("the input's variance underflows")
    wide = pair.channels > pair.images
    turned = directions.T @ pair.y.gram @ directions if wide else None
    explained = pair.once(loadings).square().sum(dim=1) if turned is None else turned.diagonal()
    penalty = best_penalty(pair.images, strengths, explained, pair.y.scatter)
    if turned is None or len(strengths) < pair.images - 1:
        residual = _residual(pair, penalty)
    else:
        # The fit leaves p / (s + p) of each direction, and the directions span everything: the
        # n x n Gram matrix determines the residuals' lengths.
        left = directions * (penalty / (strengths + penalty))
        residual = ((left @ turned) * left).sum(dim=1)
    n = pair.images
    leverage = 1 / n + directions.square() @ (strengths / (strengths + penalty))
    # A residual over one minus the image's leverage is its residual in the fit without it; the
    # mean without it is off by n / (n - 1) of the centred value.
    errors = residual / (1 - leverage).square()
    return 1 - float(errors.sum()) / (pair.y.scatter * (n / (n - 1)) ** 2)


def rounding_move(pair: Pair) -> float:
    """Return about how far rounding of the forward pass moves the R2 of the least-squares fit.

    Errors turn the input's direction i, of strength s_i, by an angle of a_i = sqrt(n) e_i / s_i,
    e_i their root mean square along it. With the share r_i of the output's variance along the
    direction and the share u of what is left, R2 moves by sum a_i^2 r_i and, with errors that
    are independent, by 2 sqrt(u / n sum a_i^2 r_i).
    """
    import torch

    if pair.x.errors is None:
        return 0.0
    n, (directions, strengths) = pair.images, pair.x.spectrum
    along = (pair.x.errors @ pair.x.centred.T) @ (directions / strengths.sqrt())
    squared_angles = (n * along.square().mean(dim=0) / strengths).clamp_max(1.0)
    # The shares need the largest product of all, and at most sites it is not needed.
    if 2 * math.sqrt(float(squared_angles.max()) / n) < MOST_MOVED:
        return 0.0
    shares = pair.once(loadings).square() / pair.y.column_scatter
    shares = torch.where(pair.y.constant_columns, 0.0, shares).mean(dim=1)
    weak = float(squared_angles @ shares)
    left = max(0.0, 1.0 - float(shares.sum()) + weak)
    return weak + 2 * math.sqrt(weak * left / n)


def loadings(pair: Pair) -> torch.Tensor:
    """Return the outputs' coordinates along the input's left singular vectors, r x c."""
    return pair.x.spectrum[0].T @ pair.y.centred


def best_penalty(
    images: int, strengths: torch.Tensor, explained: torch.Tensor, total: float
) -> torch.Tensor:
    """Return the ridge penalty of least generalised cross-validation error.

    Parameters
    ----------
    images : int
        Rows n.
    strengths : torch.Tensor
        Squared singular values s of the centred input, r.
    explained : torch.Tensor
        Sum of squares of the centred output along each left singular vector, r.
    total : float
        Sum of all its squares.

    Returns
    -------
    torch.Tensor
        A number: the p with the least RSS(p) / (n - df(p))^2, where df = 1 + sum s / (s + p).

    References
    ----------
    Golub, Heath and Wahba 1979, doi:10.1080/00401706.1979.10489751.
    """
    import torch

    tried = torch.logspace(*PENALTIES, dtype=torch.float64)
    penalties = tried.to(strengths.device) * strengths.mean()
    shrunk = strengths / (strengths + penalties[:, None])
    unexplained = (total - explained.sum()).clamp_min(0.0)
    residual = unexplained + (1 - shrunk).square() @ explained
    freedom = images - 1 - shrunk.sum(dim=1)
    return penalties[(residual / freedom.square()).argmin()]


def _residual(pair: Pair, penalty: torch.Tensor) -> torch.Tensor:
    """Return the squared length of each image's residual in the ridge fit to all images, n."""
    import torch

    directions, strengths = pair.x.spectrum
    weighted = directions * (strengths / (strengths + penalty))
    residual = torch.addmm(pair.y.centred, weighted, pair.once(loadings), alpha=-1)
    return residual.square_().sum(dim=1)


_HELDOUT = Quantity(
    name="r2_heldout",
    heading="held-out R2",
    sentence="R2 of a ridge fit on images left out of it one by one; at most 1.",
    formula="1 - sum of squared leave-one-out errors of the fit / of the mean",
    unit="1",
    low=-math.inf,
    high=1.0,
    direction="higher",
    invariances=frozenset(INVARIANCES) - {"pairing", "swap"},
    source="leave-one-out: Allen 1974, Technometrics 16:125; penalty: Golub, Heath and "
    "Wahba 1979, doi:10.1080/00401706.1979.10489751",
    least_images=4,
    compute=r2_heldout,
)

METRIC = Metric(
    "r2",
    (
        replace(
            _HELDOUT,
            name="r2",
            heading="R2",
            sentence="R2 of a linear fit on the images it was fitted on; 1 where c >= n - 1.",
            formula="mean over channels of 1 - |y - Xb - a|^2 / |yc|^2, least squares over "
            "directions of X above 1e-6 of the strongest",
            low=0.0,
            invariances=_HELDOUT.invariances - {"rotation", "rotation_output"},
            source="Bouniot et al. 2025, arXiv:2310.11439, Appendix G",
            least_images=2,
            compute=r2,
        ),
        _HELDOUT,
    ),
)
