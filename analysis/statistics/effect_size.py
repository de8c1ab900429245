"""Cliff's delta of two groups of numbers, with its interval and test.

It counts pairs, so that it holds for scores close to 0 or 1 too, where a difference of means over a
deviation says little.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.stats import mannwhitneyu
from scipy.stats import norm as gaussian

from analysis.statistics.pearson import CONFIDENCE

_EDGE = 1e-12


@dataclass(frozen=True, slots=True)
class Effect:
    """By how much the numbers of one group lie above those of another."""

    #: P(a > b) - P(a < b), in [-1, 1]: 1 where every number lies above every number of the other.
    delta: float
    #: The interval that holds the true one with a chance of ``CONFIDENCE``, if the numbers are
    #: independent.
    low: float
    high: float
    #: Two-sided, of the hypothesis that neither lies above the other.
    p: float


def cliffs_delta(group: ArrayLike, others: ArrayLike) -> Effect:
    """Compare two independent groups of numbers by their order alone.

    delta = (#(a > b) - #(a < b)) / (n m) [1]_. The test is that of Mann and Whitney, exact where
    there are no ties and one group has at most eight numbers. The interval is that of Newcombe's
    method 5 for (delta + 1) / 2 [2]_, which has a width where the groups do not overlap too.

    Parameters
    ----------
    group, others : array of float, shapes (n,) and (m,)
        Neither of them empty.

    Returns
    -------
    Effect
        The difference.

    References
    ----------
    .. [1] N. Cliff, "Dominance Statistics: Ordinal Analyses to Answer Ordinal Questions",
       Psychological Bulletin 114 (1993), doi:10.1037/0033-2909.114.3.494.
    .. [2] R. G. Newcombe, "Confidence Intervals for an Effect Size Measure Based on the
       Mann-Whitney Statistic. Part 2", Statistics in Medicine 25 (2006), doi:10.1002/sim.2324.
    """
    a, b = np.asarray(group, float), np.asarray(others, float)
    above = float(np.sign(a[:, None] - b[None, :]).mean())
    low, high = _newcombe((above + 1) / 2, len(a), len(b))
    varied = np.ptp(np.concatenate([a, b])) > 0
    p = float(mannwhitneyu(a, b, method="auto").pvalue) if varied else 1.0
    return Effect(above, 2 * low - 1, 2 * high - 1, p)


def _newcombe(theta: float, n: int, m: int) -> tuple[float, float]:
    """Return where |theta - t| = z sqrt(V(t)), below and above theta."""
    z = float(gaussian.ppf((1 + CONFIDENCE) / 2))
    half = (n + m) / 2 - 1

    def beyond(t: float) -> float:
        bracket = 1 + half * ((1 - t) / (2 - t) + t / (1 + t))
        return (theta - t) ** 2 - z * z * t * (1 - t) * bracket / (n * m)

    # At 0 and 1 theta is itself a root, and not the limit.
    low = 0.0 if theta == 0 else float(brentq(beyond, 0.0, min(theta, 1 - _EDGE)))
    high = 1.0 if theta == 1 else float(brentq(beyond, max(theta, _EDGE), 1.0))
    return low, high
