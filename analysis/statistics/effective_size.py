r"""Effective sizes: how many independent pairs the sites of a network are worth for a correlation.

Sites next to each other, or in the same place of their blocks, have like scores. Of two independent
series of n values with the matrices of autocorrelations R and S, the sample correlation has the
variance [1]_ (C takes the mean away)

    V = tr(C R C S) / (tr(C R) tr(C S)),

where independent values have 1 / (n - 1), so that both are worth 1 + 1 / V pairs. For long series
this is n / (1 + 2 sum_k (1 - k / n) r_k s_k) [2]_.

Autocorrelations of a short persistent sample are too small, 0.79 on average for one of 0.9 over 49
values, and those at long lags are mostly noise. V is therefore not computed from them: it is the
expectation over what the autocorrelations may be (``analysis.statistics.autoregressions``).
``bench/correlations.py`` simulates how often tests reject.

References
----------
.. [1] P. Dutilleul, "Modifying the t Test for Assessing the Correlation Between Two Spatial
   Processes", Biometrics 49 (1993), doi:10.2307/2532625; after P. Clifford, S. Richardson and
   D. Hemon, Biometrics 45 (1989), doi:10.2307/2532039.
.. [2] M. S. Bartlett, "Some Aspects of the Time-Correlation Problem in Regard to Tests of
   Significance", Journal of the Royal Statistical Society 98 (1935), doi:10.2307/2342284.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from analysis.array_types import Floats
from analysis.statistics.autoregressions import autoregressions


@dataclass(frozen=True, slots=True)
class Persistence:
    """What is expected of the autocorrelations of a series of n values."""

    #: Expectation of R's entries at lag 0 to n - 1 over tr(C R), shape (n,).
    lags: Floats
    #: Expectation of V for two series of these autocorrelations.
    alone: float

    def variance_with(self, other: Persistence) -> float:
        """Return V, the variance of a correlation with an independent series of n values."""
        return float(_variance(self.lags, other.lags))


def persistence(values: ArrayLike) -> Persistence:
    """Return the expected autocorrelations of a series.

    Parameters
    ----------
    values : array of float, shape (n,)
        At least four, in their order.
    """
    series = np.asarray(values, float)
    # What is left of an exact relation is rounding, or nothing.
    weights = autoregressions(len(series)).weights(series / (series.std() or 1.0))
    lags, alone = _lags(len(series))
    return Persistence(weights @ lags, float(weights @ alone))


def effective_pairs(x: ArrayLike, y: ArrayLike) -> float:
    """Return how many independent pairs two series are worth for a test against independence.

    Parameters
    ----------
    x, y : array of float, shape (n,)
        At least four pairs in their order; neither constant.

    Returns
    -------
    float
        1 + 1 / V, at most n.
    """
    return _size(persistence(x).variance_with(persistence(y)), np.size(x))


def effective_size(values: ArrayLike) -> float:
    """Return how many independent values a series is worth for the shape of its distribution.

    Parameters
    ----------
    values : array of float, shape (n,)
        At least four, in their order; not constant.

    Returns
    -------
    float
        1 + 1 / V of two such series, at most n: squares of the values, on which it depends how far
        their distribution has two modes, have the squares of the autocorrelations.
    """
    return _size(persistence(values).alone, np.size(values))


def _size(variance: float, n: int) -> float:
    return min(1 + 1 / variance, float(n))


@functools.lru_cache(maxsize=8)
def _lags(n: int) -> tuple[Floats, Floats]:
    """Return what ``Persistence`` holds, of each autoregression: shapes (m, n) and (m,)."""
    correlations = autoregressions(n).correlations()
    pairs = correlations[:, 1:] @ (n - np.arange(1, n))
    lags = correlations / (n - 1 - 2 * pairs / n)[:, None]
    return lags, _variance(lags, lags)


def _variance(one: Floats, other: Floats) -> Floats:
    """Return tr(C R C S) of Toeplitz matrices by their first rows, shape (..., n)."""
    n = one.shape[-1]
    times = np.where(np.arange(n) == 0, n, 2 * (n - np.arange(n)))
    x, y = _row_sums(one), _row_sums(other)
    total = (times * one * other).sum(-1) - 2 / n * (x * y).sum(-1)
    result: Floats = total + x.sum(-1) * y.sum(-1) / n**2
    return result


def _row_sums(first_row: Floats) -> Floats:
    """Return the sums of a symmetric Toeplitz matrix's rows."""
    sums = first_row.cumsum(-1)
    result: Floats = sums + sums[..., ::-1] - first_row[..., :1]
    return result
