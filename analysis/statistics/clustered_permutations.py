"""Permutations of numbers that come in groups, such as architectures in families."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from analysis.array_types import Floats
from analysis.statistics.permutations import MOST_ORDERED, all_orders, permutation_p


@dataclass(frozen=True, slots=True)
class Permuted:
    """Permutations of n numbers, all equally likely under the null hypothesis."""

    #: One permutation a row, shape (m, n).
    values: Floats
    #: Whether these are all permutations; else they are drawn at random.
    exact: bool

    def p(self, observed: float, statistics: Floats) -> float:
        """Return the p-value of a statistic, given that of each permutation."""
        return permutation_p(observed, statistics, exact=self.exact)


def permuted_by_group(values: Floats, groups: ArrayLike, permutations: int, seed: int) -> Permuted:
    """Return values whose groups' means change places, and within groups what is left of them.

    Members of a group are alike: permuted one by one they would pass for as many independent
    numbers as there are. Under the null hypothesis they are y_gi = a_g + e_gi, the a exchangeable
    among groups and the e within each [1]_; means of small groups, which vary more, are taken for
    as good as those of large ones.

    Parameters
    ----------
    values : array of float, shape (n,)
        The numbers.
    groups : array, shape (n,)
        The group of each.
    permutations : int
        How many to draw. Where there is one group, or one number a group, all are taken of eight
        numbers or fewer. Numbers without a group are one.
    seed : int
        Seed of the drawing.

    References
    ----------
    .. [1] A. M. Winkler, M. A. Webster, D. Vidaurre, T. E. Nichols and S. M. Smith, "Multi-level
       block permutation", NeuroImage 123 (2015), doi:10.1016/j.neuroimage.2015.05.092.
    """
    group, names = pd.factorize(np.asarray(groups), use_na_sentinel=False)
    if len(names) in (1, len(values)) and len(values) <= MOST_ORDERED:
        return Permuted(values[all_orders(len(values))], exact=True)
    rng = np.random.default_rng(seed)
    means = np.bincount(group, values) / np.bincount(group)
    drawn = rng.permuted(np.tile(means, (permutations, 1)), axis=1)[:, group]
    for each in range(len(names)):
        members = np.flatnonzero(group == each)
        left = np.tile(values[members] - means[each], (permutations, 1))
        drawn[:, members] += rng.permuted(left, axis=1)
    return Permuted(drawn, exact=False)
