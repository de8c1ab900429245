"""Permutation tests: the p-value of a statistic over orders or signs that are equally likely."""

from __future__ import annotations

import functools
from itertools import permutations as every_order

import numpy as np

from analysis.array_types import Floats, Integers
from survey.errors import SettingsError

#: The most numbers of which all orders are tried.
MOST_ORDERED = 8

#: How many numbers' choices of signs are all tried.
_MOST_SIGNED = 16

#: How many choices of signs are drawn at once: all of them, of a thousand numbers, take a gigabyte.
_BLOCK = 1024

#: Two statistics count as equal where they differ by no more: rounding must not break a tie.
TIE = 1e-12


def permutation_p(observed: float, permuted: Floats, *, exact: bool) -> float:
    """Return the share of permutations whose statistic is at least the observed one.

    Parameters
    ----------
    observed : float
        The statistic of the numbers as they came.
    permuted : array of float, shape (m,)
        That of each permutation.
    exact : bool
        Whether these are all permutations; else they were drawn at random.

    Returns
    -------
    float
        b / m over all of them; (b + 1) / (m + 1) over drawn ones, which is never 0 and errs on the
        side of no finding [1]_.

    References
    ----------
    .. [1] B. Phipson and G. K. Smyth, "Permutation P-values Should Never Be Zero", Statistical
       Applications in Genetics and Molecular Biology 9 (2010), doi:10.2202/1544-6115.1585.
    """
    reached = int(np.count_nonzero(permuted >= observed - TIE))
    drawn = 0 if exact else 1
    return (reached + drawn) / (len(permuted) + drawn)


def require_permutations(permutations: int) -> None:
    """Raise a SettingsError if there is no permutation to draw."""
    if permutations < 1:
        raise SettingsError(
            f"permutations is {permutations}, must be at least 1",
            hint="9999 make a p-value exact to about 0.002 at 0.05",
        )


@functools.cache
def all_orders(n: int) -> Integers:
    """Return all orders of n numbers, shape (n!, n)."""
    orders = np.array(list(every_order(range(n))), np.int64)
    orders.setflags(write=False)
    return orders


def signs_p(differences: Floats) -> float:
    """Return the chance of a mean at least as far from 0 if each sign were chance.

    Parameters
    ----------
    differences : array of float, shape (n,)
        At least one. Up to 16 of them every choice of signs is tried; of more, 2^16 are drawn.
    """
    n = len(differences)
    exact = n <= _MOST_SIGNED
    if exact:
        sums = (1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)) @ differences
    else:
        rng = np.random.default_rng(0)
        blocks = (rng.choice([-1.0, 1.0], (_BLOCK, n)) for _ in range(2**_MOST_SIGNED // _BLOCK))
        sums = np.concatenate([signs @ differences for signs in blocks])
    return permutation_p(abs(float(differences.sum())), np.abs(sums), exact=exact)
