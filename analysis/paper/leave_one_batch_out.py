"""Numbers of each run without each of its batches, for the standard errors beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.data.rows_of_runs import of_runs
from analysis.statistics.jackknife import LeftOut, means_without_each
from analysis.statistics.pearson import pearson_where_known


def correlations_left_out(
    layers: pd.DataFrame, signatures: pd.DataFrame, metrics: Sequence[str]
) -> dict[tuple[str, str], LeftOut]:
    """Return each run's correlations of affinity with each metric without each batch.

    Parameters
    ----------
    layers : pandas.DataFrame
        Rows of ``analysis.layers``.
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures`` of the runs.
    metrics : sequence of str
        Columns of both.

    Returns
    -------
    dict of (str, str) to pandas.Series
        By run id and metric: a value a batch, by its number.
    """
    correlations = {}
    for run_id, rows in of_runs(layers, signatures).groupby("run_id", sort=False):
        affinity = _table(rows, "affinity")
        for metric in metrics:
            other = _table(rows, metric)
            scored = _scored(affinity) | _scored(other)
            left_out = (means_without_each(each[scored].to_numpy()) for each in (affinity, other))
            values = [pearson_where_known(a, b) for a, b in zip(*left_out, strict=True)]
            correlations[str(run_id), metric] = pd.Series(values, affinity.index[scored], float)
    return correlations


def means_left_out(layers: pd.DataFrame, run_ids: Sequence[str], metric: str) -> list[LeftOut]:
    """Return each run's means of a metric over its sites without each batch, by its number."""
    every = []
    for _, rows in layers[layers["run_id"].isin(run_ids)].groupby("run_id", sort=False):
        table = _table(rows, metric)
        table = table[_scored(table)]
        # Without its only batch a run has no mean.
        means = means_without_each(table.to_numpy()) if len(table) > 1 else table.to_numpy()
        every.append(pd.Series(np.nanmean(means, axis=1), table.index, float))
    return every


def _table(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    return rows.pivot(index="batch", columns="site", values=column).astype("float64")


def _scored(table: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which batches have any value: one that failed cannot be left out."""
    return np.asarray(np.isfinite(table.to_numpy()).any(axis=1))
