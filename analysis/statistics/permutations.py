"""Permutation tests: the orders or signs to try, and the p-value of a statistic over them."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from itertools import permutations as every_order

import numpy as np
from numpy.typing import NDArray

from survey.errors import SettingsError

#: The largest number of orders that are all tried: those of eight numbers.
MOST_ORDERS = math.factorial(8)

#: How many numbers' choices of signs are all tried.
_MOST_SIGNED = 16

#: Two statistics count as equal where they differ by no more: rounding must not break a tie.
TIE = 1e-12


@dataclass(frozen=True, slots=True)
class Orders:
    """Orders of n numbers, all equally likely under the null hypothesis."""

    #: One order a row, shape (m, n).
    indices: NDArray[np.int64]
    #: Whether these are all orders; else they are drawn at random.
    exact: bool

    def p(self, observed: float, permuted: NDArray[np.float64]) -> float:
        """Return the share of orders whose statistic is at least the observed one.

        Parameters
        ----------
        observed : float
            The statistic of the order the numbers came in.
        permuted : array of float, shape (m,)
            That of each order.

        Returns
        -------
        float
            b / m over all orders; (b + 1) / (m + 1) over drawn ones, which is never 0 and errs on
            the side of no finding [1]_.

        References
        ----------
        .. [1] B. Phipson and G. K. Smyth, "Permutation P-values Should Never Be Zero", Statistical
           Applications in Genetics and Molecular Biology 9 (2010), doi:10.2202/1544-6115.1585.
        """
        reached = int(np.count_nonzero(permuted >= observed - TIE))
        drawn = 0 if self.exact else 1
        return (reached + drawn) / (len(permuted) + drawn)


def orders(n: int, permutations: int, seed: int) -> Orders:
    """Return all orders of n numbers where they are few, else random ones.

    Parameters
    ----------
    n : int
        How many numbers.
    permutations : int
        How many orders to draw where there are over ``MOST_ORDERS``, at least 1.
    seed : int
        Seed of the drawing.

    Raises
    ------
    SettingsError
        If permutations is not at least 1.
    """
    if permutations < 1:
        raise SettingsError(
            f"permutations is {permutations}, must be at least 1",
            hint="9999 make a p-value exact to about 0.002 at 0.05",
        )
    if math.factorial(min(n, 20)) <= MOST_ORDERS:
        return Orders(_all(n), exact=True)
    rows = np.tile(np.arange(n), (permutations, 1))
    return Orders(np.random.default_rng(seed).permuted(rows, axis=1), exact=False)


@functools.cache
def _all(n: int) -> NDArray[np.int64]:
    indices = np.array(list(every_order(range(n))), np.int64)
    indices.setflags(write=False)
    return indices


def signs_p(differences: NDArray[np.float64]) -> float:
    """Return the chance of a mean at least as far from 0 if each sign were chance.

    Parameters
    ----------
    differences : array of float, shape (n,)
        At least one. Up to 16 of them every choice of signs is tried; of more, 2^16 are drawn.
    """
    n = len(differences)
    if n <= _MOST_SIGNED:
        signs = 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    else:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (2**_MOST_SIGNED, n))
    every = Orders(np.empty((0, n), np.int64), exact=n <= _MOST_SIGNED)
    return every.p(abs(float(differences.sum())), np.abs(signs @ differences))
