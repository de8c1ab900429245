"""Robustness: how alike checkpoints of one architecture are, metric by metric (Table 3).

Owns the spread of a metric's mean over the checkpoints, and how their signatures correlate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from analysis.array_types import Floats
from analysis.choices import PAPER_METRICS
from analysis.data.model_names import measured_on
from analysis.data.paired_sites import last_run_each
from analysis.data.random_weights import trained
from analysis.data.tables import Row, result_table
from analysis.data.validation import require_columns
from analysis.statistics.pearson import pearson_where_known
from analysis.text import listed, number
from survey.errors import SettingsError, UnknownName
from survey.metrics import title_of
from survey.text import counted

#: What is compared: the affinity, and what the paper compares it with.
CRITERIA = ("affinity", *PAPER_METRICS)

#: What must be equal for runs to differ in their checkpoints alone.
SETTING = ("source", "architecture", "dataset", "pooling")

COLUMNS = {
    **dict.fromkeys(("source", "architecture", "dataset", "metric"), "str"),
    "n": "int64",
    **dict.fromkeys(("mean", "std", "relative_std", "lowest", "highest", "correlation"), "float64"),
    "correlation_lowest": "float64",
    "reason": "str",
}


def robustness(
    signatures: pd.DataFrame, metrics: Sequence[str] = CRITERIA, *, untrained: bool = False
) -> pd.DataFrame:
    """Compare the checkpoints of each architecture by the mean of every metric over the sites.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``: ``run_id``, ``source``, ``architecture``, ``checkpoint``,
        ``dataset``, ``pooling``, ``site`` and the metrics.
    metrics : sequence of str
        Columns to compare.
    untrained : bool
        Whether randomly initialised checkpoints (``init:...``) count.

    Returns
    -------
    pandas.DataFrame
        One row an architecture, dataset and metric, where it was measured with several
        checkpoints: ``source``, ``architecture``, ``dataset`` (with the pooling unless that is
        mean), ``metric``, ``n`` (checkpoints with a value), ``mean`` and ``std`` (sample deviation)
        over the checkpoints of each one's mean over its sites, ``relative_std`` (the deviation over
        the size of the mean: the paper compares deviations of metrics in different units),
        ``lowest`` and ``highest`` of these means, ``correlation`` (Pearson's, over the sites that
        both have: mean over pairs of checkpoints) and ``correlation_lowest`` (of all pairs),
        ``reason`` (why something is blank; empty if nothing is).

    Raises
    ------
    UnknownName
        If a metric is not a column of the frame.
    SettingsError
        If there is no metric, or another column is missing.

    Notes
    -----
    After Table 3 and Appendix I of the paper, which averages 17 ResNet-50 (one of them wider, which
    is another architecture here). It does not say whether its deviation is over checkpoints alone,
    nor which sparsity and entropy it took; here it is over checkpoints, and of the changes.
    """
    require_columns(signatures, ("run_id", *SETTING, "checkpoint", "site"))
    if not metrics:
        raise SettingsError("no metric to compare checkpoints by", hint="name at least one")
    for metric in metrics:
        if metric not in signatures:
            raise UnknownName("metric", metric, CRITERIA)
    kept = signatures if untrained else signatures[trained(signatures["checkpoint"])]
    return result_table(_rows(kept, metrics), COLUMNS, kept)


def robustness_finding(robustness: pd.DataFrame) -> str:
    """Return which metric varies least over the checkpoints of an architecture, as a sentence.

    Parameters
    ----------
    robustness : pandas.DataFrame
        From ``robustness``.
    """
    known = robustness[robustness["relative_std"].notna()]
    if known.empty:
        return "No architecture was measured with several checkpoints"
    known = known.assign(name=known["metric"].map(title_of))
    by_setting = known.groupby(["source", "architecture", "dataset"])
    steadiest = [_steadiest(group) for _, group in by_setting]
    if len(steadiest) > 1:
        ours = steadiest.count(["affinity"])
        architectures = len(known.drop_duplicates(["source", "architecture"]))
        count = counted(architectures, "architecture")
        if len(steadiest) > architectures:
            count = f"{counted(len(steadiest), 'comparison')} of {count}, one a dataset"
        return f"Affinity varies least over checkpoints in {ours} of {count}"
    spread, names = known.set_index("name")["relative_std"], steadiest[0]
    several = len(names) > 1
    least = f"{number(spread.min())} of {'their means' if several else 'its mean'}"
    if several and len(names) == len(spread):
        return f"All metrics vary alike over checkpoints ({least})"
    if "affinity" in spread and "affinity" not in names:
        least += f"; affinity {number(spread['affinity'])}"
    return f"{listed(names)} {'vary' if several else 'varies'} least over checkpoints ({least})"


def _steadiest(group: pd.DataFrame) -> list[str]:
    """Return the metrics of a setting that vary least, all that print the same."""
    printed = group["relative_std"].map(number)
    return list(group.loc[printed == number(group["relative_std"].min()), "name"])


def _rows(signatures: pd.DataFrame, metrics: Sequence[str]) -> Iterator[Row]:
    single = last_run_each(signatures)
    # A group of few columns is made in a fraction of the time.
    used = ["checkpoint", "site", "dataset_name", *SETTING, *metrics]
    single = single[[each for each in used if each in single]]
    for setting, runs in single.groupby(list(SETTING), sort=True):
        basics = dict(zip(SETTING, setting, strict=True))
        basics["dataset"] = measured_on(runs.iloc[0])
        if runs["checkpoint"].nunique() < 2:
            continue
        for metric, values in zip(metrics, _grids(runs, metrics), strict=True):
            yield {**basics, "metric": metric, **_numbers(values)}


def _grids(runs: pd.DataFrame, metrics: Sequence[str]) -> Floats:
    """Return the values of each metric, shape (metrics, checkpoints, sites), NaN where none is."""
    names, row = np.unique(runs["checkpoint"], return_inverse=True)
    sites, column = np.unique(runs["site"], return_inverse=True)
    grids: Floats = np.full((len(metrics), len(names), len(sites)), np.nan)
    grids[:, row, column] = runs[list(metrics)].to_numpy(float).T
    return grids


def _numbers(values: Floats) -> Row:
    """Return the numbers of one metric; a row of the values a checkpoint, a column a site."""
    known = values[~np.isnan(values).all(axis=1)]
    n = len(known)
    if n == 0:
        return {"n": 0, "reason": "no checkpoint has a value"}
    means = np.nanmean(known, axis=1)
    row: Row = {"n": n, "mean": means.mean(), "lowest": means.min(), "highest": means.max()}
    if n == 1:
        return row | {"reason": "one checkpoint has a value: no deviation"}
    std = float(means.std(ddof=1))
    row |= {"std": std, "relative_std": std / abs(row["mean"]) if row["mean"] else np.nan}
    every = [pearson_where_known(one, other) for one, other in combinations(known, 2)]
    if not (result := [each for each in every if not np.isnan(each)]):
        return row | {"reason": "no two checkpoints vary over enough sites to correlate"}
    return row | {"correlation": np.mean(result), "correlation_lowest": min(result), "reason": ""}
