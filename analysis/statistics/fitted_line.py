"""A straight line through points, by least squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True)
class FittedLine:
    """A straight line fitted to points by least squares."""

    #: Share of the variance that it explains.
    r2: float
    slope: float
    intercept: float
    #: R2 of points left out of their fit, at most 1; NaN where one point alone makes x vary.
    r2_left_out: float


def fitted_line(x: ArrayLike, y: ArrayLike) -> FittedLine:
    """Fit a straight line y = slope x + intercept by least squares.

    The residual of a point left out of its own fit is r_i / (1 - h_i), with the leverage
    h_i = 1/n + (x_i - mx)^2 / sum (x - mx)^2.

    Parameters
    ----------
    x, y : array of float, shape (n,)
        At least three points; neither x nor y constant.

    Returns
    -------
    FittedLine
        The fit and how good it is.
    """
    a, b = np.asarray(x, float), np.asarray(y, float)
    from_mean = a - a.mean()
    spread, total = float(from_mean @ from_mean), float(((b - b.mean()) ** 2).sum())
    slope = float(from_mean @ (b - b.mean())) / spread
    residuals = b - b.mean() - slope * from_mean
    leverages = 1 / len(a) + from_mean**2 / spread
    alone = bool((1 - leverages < 1e-12).any())
    press = np.nan if alone else float(((residuals / (1 - leverages)) ** 2).sum())
    explained = 1 - float(residuals @ residuals) / total
    return FittedLine(explained, slope, float(b.mean() - slope * a.mean()), 1 - press / total)
