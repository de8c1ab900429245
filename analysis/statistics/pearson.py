"""Pearson's correlation coefficient, with its test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr

from analysis.array_types import Floats, Integers

#: Pairs that a coefficient needs: of three, any interval is nearly all there is.
LEAST_SITES = 4

#: What share of the largest value a vector must span, or rounding is all it holds: R2 is 1 to
#: within rounding wherever a site has as many channels as there are images.
ROUNDING = 1e-9

#: A correlation that is no further from -1 or 1 is exact but for rounding.
EXACT = 1e-12

#: How sure an interval is to hold the truth.
CONFIDENCE = 0.95


def pearson(x: ArrayLike, y: ArrayLike) -> float:
    """Return Pearson's coefficient sum (x - mx)(y - my) / sqrt(sum (x - mx)^2 sum (y - my)^2).

    Parameters
    ----------
    x, y : array of float, shape (n,)
        Neither of them constant.
    """
    a, b = _centred(x), _centred(y)
    return float(np.clip(a @ b, -1.0, 1.0))


def pearson_where_known(x: Floats, y: Floats) -> float:
    """Return Pearson's coefficient over the pairs without NaN.

    Parameters
    ----------
    x, y : array of float, shape (n,)
        The values.

    Returns
    -------
    float
        NaN for fewer than ``LEAST_SITES`` such pairs, or where x or y does not vary over them.
    """
    known = np.isfinite(x) & np.isfinite(y)
    a, b = x[known], y[known]
    if len(a) < LEAST_SITES or constant(a) or constant(b):
        return np.nan
    return pearson(a, b)


def pearson_by_group(
    x: Floats, others: Sequence[Floats], group: Integers, groups: int
) -> tuple[Integers, Floats]:
    """Return Pearson's coefficients of a value with others, over each of many groups at once.

    A group's is the same to the last bit whichever others there are: it is summed by itself.

    Parameters
    ----------
    x : array of float, shape (n,)
        The value.
    others : sequence of array of float
        The m others, each of shape (n,); pairs without NaN count.
    group : array of int, shape (n,)
        The number of each pair's group, from 0.
    groups : int
        How many groups there are.

    Returns
    -------
    pairs : array of int, shape (groups, m)
        How many pairs are without NaN.
    r : array of float, shape (groups, m)
        NaN as in ``pearson_where_known``.
    """
    pairs, r = np.zeros((groups, len(others)), np.int64), np.full((groups, len(others)), np.nan)
    if (group[1:] < group[:-1]).any():
        order = np.argsort(group, kind="stable")
        x, others, group = x[order], [y[order] for y in others], group[order]
    last: NDArray[np.bool_] | None = None
    for place, y in enumerate(others):
        known = np.isfinite(x) & np.isfinite(y)
        # Most often the others lack values at the same sites.
        if last is None or not np.array_equal(known, last):
            last, sizes = known, np.bincount(group[known], minlength=groups)
            there = sizes >= LEAST_SITES
            # Sums over neighbours take a tenth of the time of those by group.
            kept = np.flatnonzero(known)[np.repeat(there, sizes)]
            sizes_there = sizes[there]
            starts = sizes_there.cumsum() - sizes_there
            a, x_varies = _within(x[kept], starts, sizes_there)
            x_squares = np.add.reduceat(a * a, starts)
        b, y_varies = _within(y[kept], starts, sizes_there)
        varies = x_varies & y_varies
        products, squares = (np.add.reduceat(c * b, starts)[varies] for c in (a, b))
        pairs[:, place] = sizes
        scaled = products / np.sqrt(x_squares[varies]) / np.sqrt(squares)
        r[np.flatnonzero(there)[varies], place] = np.clip(scaled, -1.0, 1.0)
    return pairs, r


def _within(values: Floats, starts: Integers, sizes: Integers) -> tuple[Floats, NDArray[np.bool_]]:
    """Return values less their group's mean, and which groups are not ``constant``."""
    least, most = (each.reduceat(values, starts) for each in (np.minimum, np.maximum))
    means = np.add.reduceat(values, starts) / sizes
    varies = most - least > ROUNDING * np.maximum(most, -least)
    return values - np.repeat(means, sizes), varies


def correlation_p(r: float, n: float) -> float:
    """Return the two-sided p of a correlation: t = r sqrt((n - 2) / (1 - r^2)), n > 2."""
    if abs(r) >= 1 - EXACT:
        return 0.0
    return float(2 * stdtr(n - 2, -abs(r) * ((n - 2) / (1 - r * r)) ** 0.5))


def population_std(std: ArrayLike, n: ArrayLike) -> Floats:
    """Return the deviation over n, as the paper prints it, from the one over n - 1."""
    counts = np.asarray(n, float)
    printed: Floats = np.asarray(std, float) * np.sqrt((counts - 1) / counts)
    return printed


def constant(values: Floats) -> bool:
    """Return whether values vary by no more than rounding."""
    return bool(np.ptp(values) <= ROUNDING * np.abs(values).max())


def _centred(values: ArrayLike) -> Floats:
    """Return values less their mean, over their norm."""
    array: Floats = np.asarray(values, float)
    centred = array - array.mean()
    normed: Floats = centred / np.linalg.norm(centred)
    return normed
