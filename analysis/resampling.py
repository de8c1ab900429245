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

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.correlation import LEAST_SITES, constant, pearson

Floats = NDArray[np.float64]


def jackknife_error(left_out: Floats) -> float:
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


def correlation_errors(
    layers: pd.DataFrame | None, signatures: pd.DataFrame, metrics: Sequence[str]
) -> dict[tuple[str, str], float]:
    """Return the standard error of each run's correlation of affinity with each metric.

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
    dict of (str, str) to float
        By run id and metric; nothing without ``layers``, NaN for one batch.
    """
    if layers is None:
        return {}
    errors = {}
    for run_id, rows in _of_runs(layers, list(signatures["run_id"].unique())):
        affinity = _table(rows, "affinity")
        for metric in metrics:
            other = _table(rows, metric)
            scored = _scored(affinity) | _scored(other)
            left_out = (means_without_each(each[scored]) for each in (affinity, other))
            pairs = zip(*left_out, strict=True)
            errors[run_id, metric] = jackknife_error(np.array([_pearson(a, b) for a, b in pairs]))
    return errors


def mean_errors(layers: pd.DataFrame | None, run_ids: Sequence[str], metric: str) -> list[float]:
    """Return the standard error of each run's mean of a metric over its sites."""
    if layers is None:
        return [np.nan] * len(run_ids)
    tables = (_table(rows, metric) for _, rows in _of_runs(layers, run_ids))
    tables = (table[_scored(table)] for table in tables)
    return [
        jackknife_error(np.nanmean(means_without_each(table), axis=1)) if len(table) > 1 else np.nan
        for table in tables
    ]


def _of_runs(layers: pd.DataFrame, run_ids: Sequence[str]) -> list[tuple[str, pd.DataFrame]]:
    known = layers[layers["run_id"].isin(list(run_ids))]
    return [(str(run_id), rows) for run_id, rows in known.groupby("run_id", sort=False)]


def _table(rows: pd.DataFrame, column: str) -> Floats:
    table: Floats = rows.pivot_table(
        index="batch", columns="site", values=column, dropna=False
    ).to_numpy(float)
    return table


def _scored(table: Floats) -> NDArray[np.bool_]:
    """Tell which batches have any value: one that failed is none to leave out."""
    return np.asarray(np.isfinite(table).any(axis=1))


def _pearson(x: Floats, y: Floats) -> float:
    kept = np.isfinite(x) & np.isfinite(y)
    a, b = x[kept], y[kept]
    if len(a) < LEAST_SITES or constant(a) or constant(b):
        return np.nan
    return pearson(a, b)
