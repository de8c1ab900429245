"""p-values of differences of means, and what many tests make of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from analysis.array_types import Floats

#: The p above which a difference is taken for chance.
SIGNIFICANT = 0.05


def difference_p(
    difference: ArrayLike, standard_error: ArrayLike, freedom: ArrayLike, tolerance: float = 0.0
) -> Floats:
    """Return the p-values of differences that matter only beyond a tolerance.

    Parameters
    ----------
    difference : array of float
        Difference of means.
    standard_error : array of float
        Its standard error; where it is 0, the difference is taken as it is.
    freedom : array of float
        Degrees of freedom.
    tolerance : float
        Largest difference that does not matter.

    Returns
    -------
    array of float
        The chance of as large a difference where the true one is the tolerance.
    """
    size, error = np.abs(np.asarray(difference, float)), np.asarray(standard_error, float)
    certain, degrees = error == 0, np.asarray(freedom, float)
    scale = np.where(certain, 1.0, error)
    below = stdtr(degrees, (tolerance - size) / scale)
    beyond = stdtr(degrees, (-tolerance - size) / scale)
    exact = np.where(size > tolerance, 0.0, 1.0)
    return np.where(certain, exact, np.minimum(below + beyond, 1.0))


def detectable_difference(
    standard_error: ArrayLike, freedom: ArrayLike, tolerance: float, level: float
) -> Floats:
    """Return from which difference on ``difference_p`` is surely at most a level.

    Parameters
    ----------
    standard_error, freedom, tolerance
        As of ``difference_p``.
    level : float
        Of one test, in (0, 1).

    Returns
    -------
    array of float
        t + s q, q the 1 - level / 2 quantile of Student's distribution: each of the two tails that
        the p-value sums is then at most half the level.
    """
    error, degrees = np.asarray(standard_error, float), np.asarray(freedom, float)
    return np.asarray(tolerance - error * stdtrit(degrees, level / 2), float)


def unpaired_freedom(
    variance_before: ArrayLike,
    batches_before: ArrayLike,
    variance_after: ArrayLike,
    batches_after: ArrayLike,
) -> tuple[Floats, Floats]:
    """Return the standard error of a difference of two means, and its degrees of freedom.

    Parameters
    ----------
    variance_before, variance_after : array of float
        Sample variances of the batch scores.
    batches_before, batches_after : array of int
        How many there are, at least 2.

    Returns
    -------
    standard_error, freedom : array of float
        Welch's degrees of freedom for equally many batches, else the smaller number less 1.
    """
    n, m = np.asarray(batches_before, float), np.asarray(batches_after, float)
    a, b = np.asarray(variance_before, float) / n, np.asarray(variance_after, float) / m
    total = a + b
    spread = np.where(total == 0, 1.0, a**2 / (n - 1) + b**2 / (m - 1))
    welch = np.where(total == 0, n + m - 2, total**2 / spread)
    return np.sqrt(total), np.where(n == m, welch, np.minimum(n, m) - 1)


def corrected(p: ArrayLike) -> tuple[Floats, Floats]:
    """Return p-values corrected for their number, in two ways.

    Parameters
    ----------
    p : array of float, shape (m,)
        The p-values of a family of tests; NaN where there is no test.

    Returns
    -------
    holm : array of float, shape (m,)
        The largest over j <= i of (m - j + 1) p_(j) [1]_: rejecting those at most a level keeps the
        chance of any false rejection at that level. NaN where there is no test.
    rate : array of float, shape (m,)
        The false discovery rate q_(i) = min over j >= i of m p_(j) / j [2]_: of those at most a
        level, at most that share is expected to be false, where tests are independent or positively
        dependent. NaN where there is no test.

    References
    ----------
    .. [1] S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian
       Journal of Statistics 6 (1979), 65-70.
    .. [2] Y. Benjamini and Y. Hochberg, "Controlling the False Discovery Rate", Journal of the
       Royal Statistical Society B 57 (1995), doi:10.1111/j.2517-6161.1995.tb02031.x.
    """
    holm, rate = np.array(p, float), np.array(p, float)
    tested = np.flatnonzero(~np.isnan(rate))
    order = tested[np.argsort(holm[tested], kind="stable")]
    tests = len(order)
    stepped = np.maximum.accumulate(holm[order] * np.arange(tests, 0, -1))
    holm[order] = np.minimum(stepped, 1.0)
    falling = (rate[order] * (tests / np.arange(1, tests + 1)))[::-1]
    rate[order] = np.minimum(np.minimum.accumulate(falling), 1.0)[::-1]
    return holm, rate
