"""Errors from which images were seen: the jackknife over the batches of a run.

Owns the standard errors of numbers that are made from a whole signature.

References
----------
.. [1] B. Efron and C. Stein, "The Jackknife Estimate of Variance", Annals of Statistics 9 (1981),
   doi:10.1214/aos/1176345462: with T_b the number without batch b, of B,
   se^2 = (B - 1) / B sum (T_b - mean T)^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.statistics.pearson import LEAST_SITES, constant, pearson

Floats = NDArray[np.float64]

#: A number without each batch of a run, by the batch's number.
LeftOut: TypeAlias = "pd.Series[float]"


def jackknife_error(left_out: NDArray[np.floating[Any]]) -> float:
    """Return the standard error from a number's values without each batch; NaN for one batch."""
    batches = len(left_out)
    if batches < 2:
        return np.nan
    spread = float(((left_out - left_out.mean()) ** 2).sum())
    return float(np.sqrt((batches - 1) / batches * spread))


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


def correlations_left_out(
    layers: pd.DataFrame | None, signatures: pd.DataFrame, metrics: Sequence[str]
) -> dict[tuple[str, str], LeftOut]:
    """Return each run's correlations of affinity with each metric without each batch.

    Parameters
    ----------
    layers : pandas.DataFrame or None
        Rows of ``analysis.layers``.
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``, of the runs that are asked about.
    metrics : sequence of str
        Columns of both.

    Returns
    -------
    dict of (str, str) to pandas.Series
        By run id and metric: a value a batch, by its number; nothing without ``layers``.
    """
    if layers is None:
        return {}
    found = {}
    for run_id, rows in _of_runs(layers, list(signatures["run_id"].unique())):
        affinity = _table(rows, "affinity")
        for metric in metrics:
            other = _table(rows, metric)
            scored = _scored(affinity) | _scored(other)
            left_out = (means_without_each(each[scored].to_numpy()) for each in (affinity, other))
            values = [_pearson(a, b) for a, b in zip(*left_out, strict=True)]
            found[run_id, metric] = pd.Series(values, affinity.index[scored], float)
    return found


def means_left_out(
    layers: pd.DataFrame | None, run_ids: Sequence[str], metric: str
) -> list[LeftOut]:
    """Return each run's means of a metric over its sites without each batch, by its number."""
    if layers is None:
        return []
    found = []
    for _, rows in _of_runs(layers, run_ids):
        table = _table(rows, metric)
        table = table[_scored(table)]
        # Without its only batch a run has no mean.
        means = means_without_each(table.to_numpy()) if len(table) > 1 else table.to_numpy()
        found.append(pd.Series(np.nanmean(means, axis=1), table.index, float))
    return found


def mean_error(left_out: Sequence[LeftOut], runs: int, *, same_images: bool) -> float:
    """Return the standard error of a mean over runs; NaN where the error of one is not known.

    Parameters
    ----------
    left_out : sequence of pandas.Series
        A run's numbers without each batch.
    runs : int
        How many runs the mean is over.
    same_images : bool
        Whether batches of one number hold the same images in every run. What chance put into them
        then moves all runs alike, and they are left out of all that have them at once; else the
        errors of the runs are independent.
    """
    if len(left_out) < runs or runs == 0 or min(map(len, left_out)) < 2:
        return np.nan
    moved = pd.concat([_influences(each) for each in left_out], axis="columns")
    known = moved.notna().sum().to_numpy() == [len(each) for each in left_out]
    influences = moved.fillna(0.0).to_numpy(float)
    together = influences.sum(axis=1) if same_images else influences
    return float(np.linalg.norm(together)) / runs if known.all() else np.nan


def _influences(left_out: LeftOut) -> LeftOut:
    """Return what each batch moves a number by, so that the norm of all is its standard error."""
    scale = ((len(left_out) - 1) / len(left_out)) ** 0.5
    found: LeftOut = (left_out - left_out.mean()) * scale
    return found


def _of_runs(layers: pd.DataFrame, run_ids: Sequence[str]) -> list[tuple[str, pd.DataFrame]]:
    known = layers[layers["run_id"].isin(list(run_ids))]
    return [(str(run_id), rows) for run_id, rows in known.groupby("run_id", sort=False)]


def _table(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    table: pd.DataFrame = rows.pivot_table(
        index="batch", columns="site", values=column, dropna=False
    ).astype("float64")
    return table


def _scored(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Tell which batches have any value: one that failed is none to leave out."""
    return np.asarray(np.isfinite(table.to_numpy()).any(axis=1))


def _pearson(x: Floats, y: Floats) -> float:
    kept = np.isfinite(x) & np.isfinite(y)
    a, b = x[kept], y[kept]
    if len(a) < LEAST_SITES or constant(a) or constant(b):
        return np.nan
    return pearson(a, b)
