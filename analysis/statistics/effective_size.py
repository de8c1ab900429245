r"""Effective sizes: how many independent pairs the sites of a network are worth for a correlation.

Sites next to each other, or in the same place of their blocks, have like scores. Of two independent
series of n values with the matrices of autocorrelations R and S, the sample correlation has the
variance [1]_ (C takes the mean away)

    V = tr(C R C S) / (tr(C R) tr(C S)),

where independent values have 1 / (n - 1), so that both are worth 1 + 1 / V pairs. For long series
this is n / (1 + 2 sum_k (1 - k / n) r_k s_k) [2]_.

Autocorrelations of a short persistent sample are too small, 0.79 on average for one of 0.9 over 49
values, and those at long lags are mostly noise. V is therefore not computed from them: it is the
expectation over what the autocorrelations may be. Each series is an autoregression of order 2,
which holds trends, alternations and both at once; its partial autocorrelations are uniform on
(-1, 1) before the data, and weighted by the exact Gaussian likelihood [3]_ with mean and variance
integrated out.
``tests/analysis/statistics/test_effective_size.py`` simulates tests and intervals.

References
----------
.. [1] P. Dutilleul, "Modifying the t Test for Assessing the Correlation Between Two Spatial
   Processes", Biometrics 49 (1993), doi:10.2307/2532625; after P. Clifford, S. Richardson and
   D. Hemon, Biometrics 45 (1989), doi:10.2307/2532039.
.. [2] M. S. Bartlett, "Some Aspects of the Time-Correlation Problem in Regard to Tests of
   Significance", Journal of the Royal Statistical Society 98 (1935), doi:10.2307/2342284.
.. [3] G. E. P. Box, G. M. Jenkins and G. C. Reinsel, "Time Series Analysis", 4th edition (Wiley,
   2008), appendix A7.4.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from analysis.array_types import Floats

#: Values of each partial autocorrelation, nodes of Gauss and Legendre: dense at -1 and 1.
_NODES = 48


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
    models = _autoregressions(len(series))
    # What is left of an exact relation is rounding, or nothing.
    weights = models.weights(series / (series.std() or 1.0))
    return Persistence(weights @ models.lags, float(weights @ models.alone))


def effective_sizes(x: ArrayLike, y: ArrayLike, r: float) -> tuple[float, float]:
    """Return how many independent pairs two series are worth, at most n.

    Parameters
    ----------
    x, y : array of float, shape (n,)
        At least four pairs in their order; neither constant.
    r : float
        Their correlation, in (-1, 1).

    Returns
    -------
    test, interval : float
        For the test against independence, and for Fisher's interval around r.

    Notes
    -----
    With y = r x + s z and s^2 = 1 - r^2, in standard units, artanh r has to first order the
    variance r^2 / 2 (V_xx + V_zz) + s^2 V_xz: a persistent x moves r by its own sample variance,
    whatever y does. The interval takes the largest of this, of the same with x and y exchanged, and
    of V_xy.
    """
    a, b = (_standardised(each) for each in (x, y))
    one, other = persistence(a), persistence(b)
    independent = one.variance_with(other)

    def around(of: Persistence, rest: Floats) -> float:
        noise = persistence(rest)
        return r * r / 2 * (of.alone + noise.alone) + (1 - r * r) * of.variance_with(noise)

    widest = max(independent, around(one, b - r * a), around(other, a - r * b))
    return _size(independent, len(a)), _size(widest, len(a))


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


def _standardised(values: ArrayLike) -> Floats:
    array = np.asarray(values, float)
    result: Floats = (array - array.mean()) / array.std()
    return result


@dataclass(frozen=True, slots=True)
class _Autoregressions:
    """Stationary autoregressions of order 2, one a pair of partial autocorrelations."""

    #: Products of (1, -phi_1, -phi_2) in the order of ``_lagged_products``, shape (6, m).
    products: Floats
    #: Logarithm of the prior weight and of what of the likelihood is free of the data, shape (m,).
    log_prior: Floats
    #: Sum of squares of a constant series of ones, shape (m,).
    ones: Floats
    #: As of ``Persistence``, shapes (m, n) and (m,).
    lags: Floats
    alone: Floats

    def weights(self, series: Floats) -> Floats:
        """Return the probability of each given a series, shape (m,)."""
        # Centred, as the two sums cancel otherwise.
        centred = series - series.mean()
        squares = _lagged_products(centred, centred) @ self.products
        crossed = _lagged_products(centred, np.ones_like(centred)) @ self.products
        # About the mean that fits each best.
        least = np.maximum(squares - crossed**2 / self.ones, np.finfo(float).tiny)
        log = self.log_prior - (len(series) - 1) / 2 * np.log(least)
        weights = np.exp(log - log.max())
        result: Floats = weights / weights.sum()
        return result


@functools.lru_cache(maxsize=16)
def _autoregressions(n: int) -> _Autoregressions:
    nodes, shares = np.polynomial.legendre.leggauss(_NODES)
    first, second = (each.ravel() for each in np.meshgrid(nodes, nodes, indexing="ij"))
    filters = np.stack([np.ones_like(first), -first * (1 - second), -second])
    one, two, three = filters
    products = np.stack([one**2, two**2, three**2, 2 * one * two, 2 * one * three, 2 * two * three])
    ones = _lagged_products(np.ones(n), np.ones(n)) @ products
    # The density's constant: |M| = (1 - p1^2) (1 - p2^2)^2 of the partial autocorrelations.
    constant = 0.5 * np.log1p(-(first**2)) + np.log1p(-(second**2)) - 0.5 * np.log(ones)
    correlations = np.ones((n, len(first)))
    correlations[1] = first
    for lag in range(2, n):
        correlations[lag] = -two * correlations[lag - 1] - three * correlations[lag - 2]
    pairs = (n - np.arange(1, n)) @ correlations[1:]
    lags = (correlations / (n - 1 - 2 * pairs / n)).T
    log_prior = constant + np.log(np.outer(shares, shares).ravel())
    return _Autoregressions(products, log_prior, ones, lags, _variance(lags, lags))


def _lagged_products(x: Floats, y: Floats) -> Floats:
    """Return sums of x_t+i y_t+j, i and j from 0 to 2, over the t that both ends allow."""
    n = len(x)

    def product(i: int, j: int) -> float:
        return float(x[i : n - j] @ y[j : n - i])

    pairs = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    return np.array([(product(i, j) + product(j, i)) / 2 for i, j in pairs])


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
