"""Dip test of unimodality: the distance of a sample's distribution from the nearest unimodal one.

The statistic of Hartigan and Hartigan, and its p-value by simulation. The machine code of
``analysis.statistics.dip_kernel`` is compiled, or read from numba's cache, on the first dip.

With F the empirical distribution function of a sample,

    dip = min over unimodal U of sup over x of |F(x) - U(x)|,

where U is unimodal if it is convex up to some mode and concave from there on; it may jump at the
mode. For n different numbers the dip lies between 1 / (2n) and 1/4.

References
----------
J. A. Hartigan and P. M. Hartigan, "The Dip Test of Unimodality", Annals of Statistics 13 (1985),
doi:10.1214/aos/1176346577.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import ArrayLike

from analysis.array_types import Floats
from survey.errors import SettingsError


def dip(values: ArrayLike) -> float:
    """Return the dip of a sample.

    Parameters
    ----------
    values : array of float, shape (n,)
        Finite numbers in any order, at least one; equal ones count as often as they occur.

    Returns
    -------
    float
        In [0, 1/4]; 0 if all are the same.
    """
    from analysis.statistics.dip_kernel import dip_of_steps

    x, counts = np.unique(np.asarray(values, float), return_counts=True)
    above = counts.cumsum().astype(float)
    return float(dip_of_steps(x, above - counts, above))


def dip_p(statistic: float, n: int, draws: int = 1999, seed: int = 0) -> float:
    """Return the chance that n uniform numbers have a dip at least as large.

    The uniform distribution is the worst case among those with one mode, as far as is known
    (Hartigan and Hartigan 1985, Section 5), so that the test errs on the side of one mode.

    Parameters
    ----------
    statistic : float
        The dip of the sample.
    n : int
        Size of the sample.
    draws : int
        Uniform samples, at least 1; drawn once for each n and seed, and kept.
    seed : int
        Seed of the drawing.

    Returns
    -------
    float
        (b + 1) / (draws + 1), b the draws whose dip reaches the statistic.

    Raises
    ------
    SettingsError
        If ``draws`` is below 1.
    """
    if draws < 1:
        raise SettingsError(f"draws is {draws}, must be at least 1")
    null = uniform_dips(n, draws, seed)
    below = int(np.searchsorted(null, statistic - 1e-12, side="left"))
    return (draws - below + 1) / (draws + 1)


@functools.lru_cache(maxsize=1024)
def uniform_dips(n: int, draws: int, seed: int) -> Floats:
    """Return the dips of uniform samples of size n, ascending, shape (draws,)."""
    from analysis.statistics.dip_kernel import dip_of_steps

    samples = np.sort(np.random.default_rng((seed, n)).random((draws, n)))
    above = np.arange(1.0, n + 1)
    dips = np.sort([dip_of_steps(sample, above - 1, above) for sample in samples])
    dips.setflags(write=False)
    return dips
