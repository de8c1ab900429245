"""Trends: whether a number rises or falls with another over models, beyond chance and rounding.

References
----------
.. [1] C. Spearman, "The Proof and Measurement of Association between Two Things", The American
   Journal of Psychology 15 (1904), 72-101, doi:10.2307/1412159.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from analysis.statistics.p_values import SIGNIFICANT
from analysis.text import chance, number

#: Permutations that are drawn, with groups and without, and their seed: those without take no time,
#: and their p may be multiplied by a number of trends.
_WITH_GROUPS, _ALONE, _SEED = 1999, 49_999, 0


@dataclass(frozen=True, slots=True)
class Trend:
    """Spearman's rank correlation of two numbers over models [1]_."""

    #: In [-1, 1]; NaN where one of them does not vary.
    rho: float
    #: The chance of one so far from 0, by permutation.
    p: float
    #: How many models.
    n: int

    @classmethod
    def of(
        cls, x: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, tests: int = 1
    ) -> Trend:
        """Return the trend of y with x.

        Parameters
        ----------
        x, y : array of float, shape (n,)
            One value a model.
        groups : array, shape (n,), optional
            Groups of models that are alike, such as families: y is permuted group by group and
            within each (``analysis.statistics.clustered_permutations``), then ranked.
        tests : int
            Of how many trends it is the one picked; p is multiplied by them (Bonferroni).
        """
        from scipy.stats import rankdata

        from analysis.statistics.clustered_permutations import permuted_by_group

        values = np.asarray(y, float)
        n = len(values)
        first, second = (rankdata(np.asarray(each, float)) - (n + 1) / 2 for each in (x, values))
        size = float(np.linalg.norm(first) * np.linalg.norm(second))
        if not size > 0:
            return cls(np.nan, np.nan, n)
        rho = float(first @ second) / size
        if groups is None:
            permuted = permuted_by_group(second, range(n), _ALONE, _SEED)
            moved = permuted.values
        else:
            permuted = permuted_by_group(values, groups, _WITH_GROUPS, _SEED)
            # Rounding in the means of groups is not to part equal values.
            moved = rankdata(permuted.values.round(12), axis=1) - (n + 1) / 2
        lengths = np.linalg.norm(moved, axis=1) * np.linalg.norm(first)
        sizes = np.abs(moved @ first) / np.where(lengths > 0, lengths, np.inf)
        return cls(rho, min(1.0, permuted.p(abs(rho), sizes) * tests), n)

    def verb(self, first: float, last: float) -> str | None:
        """Return ``rises`` or ``falls``; None where chance or rounding may have made the trend.

        Parameters
        ----------
        first, last : float
            The values at its ends, which differ as they are printed if it is one.
        """
        if not self.p <= SIGNIFICANT or number(first) == number(last):
            return None
        if (last - first) * self.rho <= 0:
            return None
        return "rises" if self.rho > 0 else "falls"

    def __str__(self) -> str:
        return f"Spearman's rho {number(self.rho)}, {chance(self.p)}"
