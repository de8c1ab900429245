"""Correlations of the affinity signature with each other metric (Tables 1 and 2).

Owns the rows of each model and the means over architectures, each with its n, interval and test, or
the reason why there is none. ``analysis.statistics.pearson`` computes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.stats import t as student

from analysis.array_types import Floats
from analysis.choices import PAPER_METRICS, PAPER_NAMES, Level
from analysis.data.model_names import measured_on, trained
from analysis.data.tables import Row, result_table
from analysis.data.validation import require_columns
from analysis.statistics.correlation_interval import correlation_interval
from analysis.statistics.effective_size import effective_pairs
from analysis.statistics.p_values import SIGNIFICANT, corrected
from analysis.statistics.pearson import (
    CONFIDENCE,
    LEAST_SITES,
    constant,
    correlation_p,
    pearson,
)
from analysis.text import number, span
from survey.errors import SettingsError, UnknownName
from survey.text import counted

COLUMNS = {
    **dict.fromkeys(("level", "name", "family", "dataset", "metric"), "str"),
    "n": "int64",
    "n_effective": "float64",
    **dict.fromkeys(("pearson", "std", "low", "high", "p", "p_corrected", "q"), "float64"),
    "reason": "str",
}

_NEEDED = (
    *("run_id", "model", "source", "architecture", "checkpoint", "family", "dataset", "pooling"),
    "affinity",
)


def correlations(
    signatures: pd.DataFrame, metrics: Sequence[str] = PAPER_METRICS, *, untrained: bool = False
) -> pd.DataFrame:
    """Correlate the affinity signature with other metrics: per model, per family, over all.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``: ``run_id``, ``model``, ``source``, ``architecture``,
        ``checkpoint``, ``family``, ``dataset``, ``pooling``, ``affinity`` and the metrics. A site
        counts where both have a value.
    metrics : sequence of str
        Columns to correlate the affinity with.
    untrained : bool
        Whether random weights (``init:...``) count in the means; each has its own row either way.

    Returns
    -------
    pandas.DataFrame
        ``level`` (model, family or all), ``name`` (the model's label, the family, or all),
        ``family``, ``dataset`` (that all of it was measured on, with the pooling unless that is
        mean), ``metric``, ``n`` (sites of a model; architectures of a family or of all),
        ``n_effective`` (how many independent sites those of a model are worth; see
        ``analysis.statistics.effective_size``), ``pearson`` (of a family or of all: the mean over
        its architectures on that dataset, of which each counts once, with the mean over its
        checkpoints), ``std`` (sample deviation over the architectures), ``low`` and ``high`` (95 %
        interval: of a model ``analysis.statistics.correlation_interval``, of a mean Student's t
        over the architectures), ``p`` (two-sided, against 0), ``p_corrected`` (Holm's correction
        [1]_ over all tests of the level), ``q`` (false discovery rate over the same; see
        ``analysis.statistics.p_values``), ``reason`` (why something is blank; empty if nothing is).

    Raises
    ------
    UnknownName
        If a metric is not a column of numbers other than the affinity itself.
    SettingsError
        If there is no metric, or another column is missing.

    Notes
    -----
    The unit of replication is the effective site for a model, as its sites depend on each other,
    and the architecture for a mean. Those of one family are alike, and few. Were checkpoints
    counted, a family would be what its most often trained architecture is.

    The paper prints the deviation with n below the fraction bar, not n - 1 (its Table 1 against its
    Table 2); ``analysis.statistics.pearson.population_std`` turns one into the other.

    References
    ----------
    .. [1] S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian
       Journal of Statistics 6 (1979), 65-70.
    """
    require_columns(signatures, _NEEDED)
    if not metrics:
        raise SettingsError("no metric to correlate the affinity with", hint="name at least one")
    numbers = _numbers(signatures)
    for metric in metrics:
        if metric not in numbers:
            raise UnknownName("metric", metric, numbers)
    models = list(_model_rows(signatures, metrics, untrained=untrained))
    families, over_all = (_mean_rows(models, metrics, by) for by in ("family", "all"))
    result = result_table([*models, *families, *over_all], COLUMNS, signatures)
    for rows in result.groupby("level").groups.values():
        result.loc[rows, ["p_corrected", "q"]] = np.transpose(corrected(result.loc[rows, "p"]))
    result.attrs["untrained"] = untrained
    return result


def correlations_finding(correlations: pd.DataFrame, level: Level = "family") -> str:
    """Return which metric follows the affinity most at a level, as a sentence.

    Parameters
    ----------
    correlations : pandas.DataFrame
        From ``correlations``.
    level : {"model", "family", "all"}
        Whose correlations.
    """
    known = correlations[(correlations["level"] == level) & correlations["pearson"].notna()]
    if level == "family" and len(known):
        # The mean of one architecture says nothing of its family.
        known = known[known["n"] > 1]
        if known.empty:
            return "No family has a correlation over several architectures"
    if known.empty:
        return "No correlation can be computed"
    noun = {"model": "model", "family": "family", "all": "survey"}[level]
    means = known.groupby("metric", sort=False)["pearson"].agg(["min", "max", "mean"])
    # Of equal ones the first by the name that is shown.
    means = means.rename(index=lambda name: PAPER_NAMES.get(name, name)).sort_index()
    row = means.iloc[int(np.argmax(means["mean"].abs()))]
    members = known["name"].nunique()
    count = counted(members, noun, "families" if noun == "family" else "")
    lead = "Even the metric" if row["min"] < 0 < row["max"] else "The metric"
    strongest = known[known["metric"].map(lambda name: PAPER_NAMES.get(name, name)) == row.name]
    tested = strongest["p_corrected"].dropna()
    small = f"{int((tested < SIGNIFICANT).sum())} of {len(tested)} differ from 0 at {SIGNIFICANT}"
    doubt = f"{small} after Holm's correction" if len(tested) else "none can be tested"
    if members == 1:
        mean = number(row["mean"])
        return f"{row.name} follows the affinity most: correlation {mean} ({count}; {doubt})"
    return (
        f"{lead} that follows the affinity most, {row.name}, correlates with it by"
        f" {span(row['min'], row['max'])} (mean {number(row['mean'])}, {count}; {doubt})"
    )


def means_sentences(correlations: pd.DataFrame) -> list[str]:
    """Return the mean correlations over all architectures, a sentence a dataset.

    Parameters
    ----------
    correlations : pandas.DataFrame
        From ``correlations``.
    """
    by_dataset = list(correlations[correlations["level"] == "all"].groupby("dataset"))
    counted_too = correlations.attrs.get("untrained")
    weights = "random weights counted" if counted_too else "without random weights"
    sentences = []
    for dataset, rows in by_dataset:
        values = [
            f"{row['metric']} {number(row['pearson'])}"
            + ("" if pd.isna(row["std"]) else f" ± {number(row['std'])}")
            for row in rows[rows["n"] > 0].to_dict("records")
        ]
        on = f" on {dataset}" if len(by_dataset) > 1 else ""
        architectures = f"{counted(int(rows['n'].max()), 'architecture')}{on}, {weights}"
        means = ", ".join(values) or "none"
        sentences.append(f"Mean correlation over {architectures}: {means}.")
    return sentences


def _model_rows(
    signatures: pd.DataFrame, metrics: Sequence[str], *, untrained: bool
) -> Iterator[Row]:
    for _, sites in signatures.groupby("run_id", sort=False):
        name, family = sites["model"].iloc[0], _text(sites["family"].iloc[0])
        dataset = measured_on(sites.iloc[0])
        affinity = sites["affinity"].to_numpy(float)
        architecture = tuple(sites[["source", "architecture"]].iloc[0])
        counts = untrained or bool(trained(sites["checkpoint"]).iloc[0])
        for metric in metrics:
            other = sites[metric].to_numpy(float)
            kept = np.isfinite(affinity) & np.isfinite(other)
            row = {"level": "model", "name": name, "family": family, "dataset": dataset}
            row |= {"architecture": architecture, "counts": counts}
            yield row | {"metric": metric} | _model_numbers(affinity[kept], other[kept], metric)


def _model_numbers(affinity: Floats, other: Floats, metric: str) -> Row:
    n = len(affinity)
    if n < LEAST_SITES:
        return {"n": n, "reason": f"{counted(n, 'site')}, at least {LEAST_SITES} are needed"}
    for name, values in (("affinity", affinity), (metric, other)):
        if constant(values):
            return {"n": n, "reason": f"{name} does not vary over the sites"}
    r = pearson(affinity, other)
    tested = effective_pairs(affinity, other)
    low, high = correlation_interval(affinity, other)
    numbers = {"pearson": r, "low": low, "high": high, "p": correlation_p(r, tested)}
    return {"n": n, "n_effective": tested, **numbers, "reason": ""}


def _mean_rows(
    models: Sequence[Row], metrics: Sequence[str], by: Literal["family", "all"]
) -> list[Row]:
    """Return the mean over each family, or over all, on each dataset by itself."""
    groups: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for model in models:
        if name := model["family"] if by == "family" else "all":
            groups[name, model["dataset"]].append(model)
    rows = []
    for (name, dataset), members in sorted(groups.items()):
        family = name if by == "family" else ""
        basics = {"level": by, "name": name, "family": family, "dataset": dataset}
        for metric in metrics:
            values = _by_architecture(row for row in members if row["metric"] == metric)
            rows.append({**basics, "metric": metric, **_mean_numbers(values)})
    return rows


def _by_architecture(rows: Iterable[Row]) -> Floats:
    """Return each architecture's mean correlation over its checkpoints that count."""
    group: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        if row["counts"] and "pearson" in row:
            group[row["architecture"]].append(row["pearson"])
    return np.array([np.mean(each) for each in group.values()], float)


def _mean_numbers(values: Floats) -> Row:
    n = len(values)
    if n == 0:
        return {"n": 0, "reason": "no architecture that counts has a correlation"}
    mean = float(values.mean())
    if n == 1:
        reason = "one architecture: no deviation, interval or test"
        return {"n": 1, "pearson": mean, "reason": reason}
    std = float(values.std(ddof=1))
    if constant(values):
        return {"n": n, "pearson": mean, "std": std, "reason": "all architectures alike: no test"}
    error = std / n**0.5
    half = float(student.ppf((1 + CONFIDENCE) / 2, n - 1)) * error
    p = float(2 * student.sf(abs(mean) / error, n - 1))
    # A mean of correlations lies in [-1, 1]; Student's interval may not.
    low, high = max(mean - half, -1.0), min(mean + half, 1.0)
    return {"n": n, "pearson": mean, "std": std, "low": low, "high": high, "p": p, "reason": ""}


def _text(value: Any) -> str:
    return "" if pd.isna(value) else str(value)


def _numbers(frame: pd.DataFrame) -> list[str]:
    return [str(name) for name in frame.select_dtypes("number").columns if name != "affinity"]
