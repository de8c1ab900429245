"""Trends: whether a number rises or falls with another over models, beyond chance and rounding.

References
----------
.. [1] M. G. Kendall, "A New Measure of Rank Correlation", Biometrika 30 (1938), 81-93,
   doi:10.1093/biomet/30.1-2.81.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from analysis.statistics.p_values import SIGNIFICANT
from analysis.text import chance, number


@dataclass(frozen=True, slots=True)
class Trend:
    """Kendall's rank correlation of two numbers over models [1]_."""

    #: In [-1, 1]; NaN where one of them does not vary.
    tau: float
    #: The chance of one so far from 0, exact for few models without ties.
    p: float
    #: How many models.
    n: int

    @classmethod
    def of(cls, x: ArrayLike, y: ArrayLike, tests: int = 1) -> Trend:
        """Return the trend of y with x.

        Parameters
        ----------
        x, y : array of float, shape (n,)
            One value a model.
        tests : int
            Of how many trends it is the one picked; p is multiplied by them (Bonferroni).
        """
        from scipy.stats import kendalltau

        a, b = np.asarray(x, float), np.asarray(y, float)
        if len(a) < 2:
            return cls(np.nan, np.nan, len(a))
        result = kendalltau(a, b)
        return cls(float(result.statistic), min(1.0, float(result.pvalue) * tests), len(a))

    def verb(self, first: float, last: float) -> str | None:
        """Return ``rises`` or ``falls``; None where chance or rounding may have made the trend.

        Parameters
        ----------
        first, last : float
            The values at its ends, which differ as they are printed if it is one.
        """
        if not self.p <= SIGNIFICANT or number(first) == number(last):
            return None
        if (last - first) * self.tau <= 0:
            return None
        return "rises" if self.tau > 0 else "falls"

    def __str__(self) -> str:
        return f"Kendall's tau {number(self.tau)}, {chance(self.p)}"
