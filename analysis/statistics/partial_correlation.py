"""Partial correlation: that of what a least-squares fit on other variables leaves, with its test.

Without other variables it is the plain correlation: the fit is then the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from analysis.array_types import Floats
from analysis.statistics.clustered_permutations import permuted_by_group
from analysis.statistics.correlation_interval import fisher_interval
from analysis.statistics.pearson import ROUNDING, pearson


@dataclass(frozen=True, slots=True)
class PartialCorrelation:
    """A correlation given other variables."""

    #: Pearson's coefficient of the residuals.
    pearson: float
    #: Fisher's 95 % interval for n less the number of other variables; members of a group are
    #: taken for independent, so that it is too short where they are alike.
    low: float
    high: float
    #: The same coefficient of the ranks, given the ranks of the others.
    spearman: float
    #: Two-sided, by permutation.
    p: float


def partial_correlation(
    x: Floats, y: Floats, given: Floats, groups: ArrayLike, permutations: int, seed: int
) -> PartialCorrelation | None:
    """Return the correlation of x and y given other variables; None where they determine one.

    Parameters
    ----------
    x, y : array of float, shape (n,)
        Neither constant; n is at least 4 more than there are other variables.
    given : array of float, shape (n, k)
        The other variables; k may be 0.
    groups : array, shape (n,)
        Groups of points that are alike, such as families.
    permutations : int
        How many permutations of the residuals of y to draw: groups' means, and members within each
        (``analysis.statistics.clustered_permutations``), both as large as before the fit. Each is
        fitted on the other variables again [1]_.
    seed : int
        Seed of the drawing.

    References
    ----------
    .. [1] D. Freedman and D. Lane, "A Nonstochastic Interpretation of Reported Significance
       Levels", Journal of Business & Economic Statistics 1 (1983), doi:10.2307/1391660.
    """
    basis = _basis(given)
    one, other = _left(x, basis), _left(y, basis)
    if not (_varies(one, x) and _varies(other, y)):
        return None
    r = pearson(one, other)
    low, high = fisher_interval(r, len(x) - given.shape[1])
    permuted = permuted_by_group(_unfitted(other, basis, groups), groups, permutations, seed)
    drawn = _left(permuted.values, basis)
    lengths = np.linalg.norm(drawn, axis=1) * np.linalg.norm(one)
    # Where a permutation leaves nothing, nothing is explained.
    sizes = np.abs(drawn @ one) / np.where(lengths > 0, lengths, np.inf)
    return PartialCorrelation(r, low, high, _of_ranks(x, y, given), permuted.p(abs(r), sizes))


def _of_ranks(x: Floats, y: Floats, given: Floats) -> float:
    """Return the coefficient of the ranks; NaN where the others' ranks determine one."""
    # Imported where ranks are needed: it takes as long as many answers.
    from scipy.stats import rankdata

    basis = _basis(rankdata(given, axis=0))
    (x, one), (y, other) = ((rank, _left(rank, basis)) for rank in map(rankdata, (x, y)))
    return pearson(one, other) if _varies(one, x) and _varies(other, y) else np.nan


def _basis(given: Floats) -> Floats:
    """Return orthonormal columns that span the other variables and the constant, n x r."""
    columns = np.column_stack([np.ones(len(given)), given])
    columns[:, 1:] -= columns[:, 1:].mean(axis=0)
    left, lengths, _ = np.linalg.svd(columns / _scale(columns), full_matrices=False)
    basis: Floats = left[:, lengths > ROUNDING * lengths[0]]
    return basis


def _scale(columns: Floats) -> Floats:
    lengths: Floats = np.linalg.norm(columns, axis=0)
    return np.where(lengths > 0, lengths, 1.0)


def _left(values: Floats, basis: Floats) -> Floats:
    """Return what the least-squares fit on a basis leaves of values, n or m x n."""
    left: Floats = values - (values @ basis) @ basis.T
    return left


def _unfitted(residual: Floats, basis: Floats, groups: ArrayLike) -> Floats:
    """Return a residual whose parts among and within groups vary as they do without the fit.

    Variables that differ by group take most from among the groups: permuted as the fit left them,
    groups would differ too little. So each part is divided by the root of the share of its degrees
    of freedom that are left.
    """
    if basis.shape[1] == 1:
        return residual
    group, names = pd.factorize(np.asarray(groups), use_na_sentinel=False)
    sizes = np.bincount(group)
    means = (np.bincount(group, residual) / sizes)[group]
    sums = np.stack([np.bincount(group, column) for column in basis.T])
    # The constant, which the basis spans, is no variable.
    among = float((sums**2 / sizes).sum()) - 1
    within = basis.shape[1] - 1 - among
    whole = np.zeros_like(residual)
    for part, freedom, taken in (
        (means, len(names) - 1, among),
        (residual - means, len(residual) - len(names), within),
    ):
        left = freedom - taken
        whole += part * ((freedom / left) ** 0.5 if left > ROUNDING * len(residual) else 1.0)
    return whole


def _varies(residual: Floats, values: Floats) -> bool:
    return bool(np.linalg.norm(residual) > ROUNDING * np.linalg.norm(values))
