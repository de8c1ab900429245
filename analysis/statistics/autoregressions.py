"""Autoregressions of order 2: what a series says of its autocorrelations, without fitting any.

Order 2 holds trends, alternations and both at once. The partial autocorrelations are uniform on
(-1, 1) before the data, laid on a grid, and weighted by the exact Gaussian likelihood [1]_ with
mean and variance integrated out: of a short series many are likely.

References
----------
.. [1] G. E. P. Box, G. M. Jenkins and G. C. Reinsel, "Time Series Analysis", 4th edition (Wiley,
   2008), appendix A7.4.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from analysis.array_types import Floats

#: The fewest and the most values of each partial autocorrelation; see ``autoregressions``.
_NODES = (32, 64)


@dataclass(frozen=True, slots=True)
class Autoregressions:
    """The grid for series of n values: m stationary autoregressions."""

    #: The number of values n.
    n: int
    #: The two partial autocorrelations, shape (m,).
    first: Floats
    second: Floats
    #: Products of (1, -phi_1, -phi_2) in the order of ``_lagged_products``, shape (6, m).
    products: Floats
    #: Logarithm of the prior weight and of what of the likelihood is free of the data, shape (m,).
    log_prior: Floats
    #: Sum of squares of a constant series of ones, shape (m,).
    ones: Floats

    @property
    def gain(self) -> Floats:
        """The variance of the series over that of its innovations, shape (m,)."""
        gain: Floats = 1 / ((1 - self.first**2) * (1 - self.second**2))
        return gain

    def correlations(self) -> Floats:
        """Return the autocorrelations at lag 0 to n - 1, shape (m, n)."""
        values = np.ones((self.n, len(self.first)))
        values[1] = self.first
        one = self.first * (1 - self.second)
        for lag in range(2, self.n):
            values[lag] = one * values[lag - 1] + self.second * values[lag - 2]
        return values.T

    def squares(self, x: Floats, y: Floats) -> Floats:
        """Return the sums of products of two series' innovations, shape (m,).

        Each is taken about the mean that fits best.

        Parameters
        ----------
        x, y : array of float, shape (n,)
            Centred, as the sums cancel otherwise.
        """
        ones = np.ones_like(x)
        means = (_lagged_products(each, ones) @ self.products for each in (x, y))
        sums: Floats = _lagged_products(x, y) @ self.products - np.prod([*means], 0) / self.ones
        return sums

    def log_likelihood(self, squares: Floats) -> Floats:
        """Return the logarithm of prior times likelihood by ``squares``, shape (..., m)."""
        log: Floats = np.log(np.maximum(squares, np.finfo(float).tiny))
        log *= -(self.n - 1) / 2
        log += self.log_prior
        return log

    def weights(self, series: Floats) -> Floats:
        """Return the probability of each given a series (n,), shape (m,)."""
        centred = series - series.mean()
        return normalised(self.log_likelihood(self.squares(centred, centred)))


def normalised(log: Floats) -> Floats:
    """Return probabilities by their logarithms but for a constant."""
    weights = np.exp(log - log.max())
    result: Floats = weights / weights.sum()
    return result


@functools.lru_cache(maxsize=16)
def autoregressions(n: int) -> Autoregressions:
    """Return the grid for series of n values, at least 4.

    Its values are the nodes of Gauss and Legendre, dense at -1 and 1, and as many as longer series
    tell apart.
    """
    few, many = _NODES
    nodes, shares = np.polynomial.legendre.leggauss(min(max(few, 2 * math.isqrt(n)), many))
    first, second = (each.ravel() for each in np.meshgrid(nodes, nodes, indexing="ij"))
    one, two, three = np.stack([np.ones_like(first), -first * (1 - second), -second])
    products = np.stack([one**2, two**2, three**2, 2 * one * two, 2 * one * three, 2 * two * three])
    ones = _lagged_products(np.ones(n), np.ones(n)) @ products
    # The density's constant: |M| = (1 - p1^2) (1 - p2^2)^2 of the partial autocorrelations.
    constant = 0.5 * np.log1p(-(first**2)) + np.log1p(-(second**2)) - 0.5 * np.log(ones)
    log_prior = constant + np.log(np.outer(shares, shares).ravel())
    return Autoregressions(n, first, second, products, log_prior, ones)


def _lagged_products(x: Floats, y: Floats) -> Floats:
    """Return sums of x_t+i y_t+j, i and j from 0 to 2, over the t that both ends allow."""
    n = len(x)

    def product(i: int, j: int) -> float:
        return float(x[i : n - j] @ y[j : n - i])

    pairs = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    return np.array([(product(i, j) + product(j, i)) / 2 for i, j in pairs])
