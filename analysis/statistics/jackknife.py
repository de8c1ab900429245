"""Jackknife: the standard error of a number, from its values without each batch of images.

References
----------
.. [1] B. Efron and C. Stein, "The Jackknife Estimate of Variance", Annals of Statistics 9 (1981),
   doi:10.1214/aos/1176345462: with T_b the number without batch b, of B,
   se^2 = (B - 1) / B sum (T_b - mean T)^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd

from analysis.array_types import Floats

#: A number without each batch of a run, by the batch's number.
LeftOut: TypeAlias = "pd.Series[float]"


def means_without_each(values: Floats) -> Floats:
    """Return the means over batches without each of them.

    Parameters
    ----------
    values : array of float, shape (batches, sites)
        NaN where a batch has no value at a site.

    Returns
    -------
    array of float, shape (batches, sites)
        Row b: the means over the others' values; NaN where they have none.
    """
    there = np.isfinite(values)
    filled = np.where(there, values, 0.0)
    sums, counts = filled.sum(axis=0) - filled, there.sum(axis=0) - there
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def mean_error(left_out: Sequence[LeftOut], runs: int, *, same_images: bool) -> float:
    """Return the standard error of a mean over runs; NaN where the error of one is not known.

    Parameters
    ----------
    left_out : sequence of pandas.Series
        A run's numbers without each batch.
    runs : int
        How many runs the mean is over.
    same_images : bool
        Whether batches of one number hold the same images in every run. Their chance content then
        moves all runs alike, and a batch is left out of all runs at once; else the errors of the
        runs are independent.
    """
    if len(left_out) < runs or runs == 0 or min(map(len, left_out)) < 2:
        return np.nan
    influences = np.concatenate([_influences(np.asarray(each, np.float64)) for each in left_out])
    if same_images:
        batches = np.concatenate([each.index for each in left_out])
        influences = np.bincount(np.unique(batches, return_inverse=True)[1], influences)
    return float(np.linalg.norm(influences)) / runs


def _influences(left_out: Floats) -> Floats:
    """Return what each batch moves a number by, so that the norm of all is its standard error."""
    scale = ((len(left_out) - 1) / len(left_out)) ** 0.5
    influences: Floats = (left_out - left_out.mean()) * scale
    return influences
