"""Correlations of the affinity signature with each other metric (Tables 1 and 2).

Owns the rows of each model and the means over architectures, each with its n, interval and test, or
the reason why there is none. ``analysis.statistics.pearson`` computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype
from scipy.special import stdtr, stdtrit

from analysis.array_types import Floats, Integers
from analysis.choices import PAPER_METRICS
from analysis.data.checkpoint_means import checkpoint_means
from analysis.data.families import families_of
from analysis.data.model_names import measured_on
from analysis.data.paired_sites import execution_order
from analysis.data.provenance import carried
from analysis.data.random_weights import trained
from analysis.data.tables import Row
from analysis.data.validation import require_columns
from analysis.statistics.correlation_interval import correlation_interval
from analysis.statistics.effective_size import effective_pairs
from analysis.statistics.p_values import corrected
from analysis.statistics.pearson import (
    CONFIDENCE,
    LEAST_SITES,
    constant,
    correlation_p,
    pearson_by_group,
)
from survey.errors import SettingsError, UnknownName
from survey.text import counted

COLUMNS = {
    **dict.fromkeys(("level", "name", "family", "dataset", "metric"), "str"),
    **dict.fromkeys(("n", "families"), "int64"),
    "n_effective": "float64",
    **dict.fromkeys(
        ("pearson", "std", "family_mean", "low", "high", "p", "p_corrected", "q"), "float64"
    ),
    "reason": "str",
}

_NEEDED = (
    *("run_id", "model", "source", "architecture", "checkpoint", "family", "dataset", "pooling"),
    "affinity",
)


#: What tells what a run was measured on.
_MEASURED_ON = ["dataset", "dataset_name", "pooling"]


def correlations(
    signatures: pd.DataFrame,
    metrics: Sequence[str] = PAPER_METRICS,
    *,
    untrained: bool = False,
    tested: bool = True,
) -> pd.DataFrame:
    """Correlate the affinity signature with other metrics: per model, per family, over all.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``: ``run_id``, ``model``, ``source``, ``architecture``,
        ``checkpoint``, ``family``, ``dataset``, ``pooling``, ``affinity`` and the metrics. A site
        counts where both have a value. Where there is a column ``site``, it is the order of a run.
    metrics : sequence of str
        Columns to correlate the affinity with.
    untrained : bool
        Whether random weights (``init:...``) count in the means; each has its own row either way.
    tested : bool
        Whether models have intervals and tests, which take milliseconds each; means have theirs
        either way.

    Returns
    -------
    pandas.DataFrame
        ``level`` (model, family or all), ``name`` (the model's label, the family, or all),
        ``family``, ``dataset`` (that all of it was measured on, with the pooling unless that is
        mean), ``metric``, ``n`` (sites of a model; architectures of a family or of all),
        ``families`` (of these; an architecture of no known family is one by itself),
        ``n_effective`` (how many independent sites those of a model are worth; see
        ``analysis.statistics.effective_size``), ``pearson`` (of a family or of all: the mean over
        its architectures on that dataset, of which each counts once, with the mean over its
        checkpoints), ``std`` (sample deviation over the architectures), ``family_mean`` (of all,
        the mean over families, of which each counts once with the mean over its architectures),
        ``low`` and ``high`` (95 % interval: of a model
        ``analysis.statistics.correlation_interval``, of a family Student's t over its
        architectures, of all, and of ``family_mean``, Student's t over the means of families),
        ``p`` (two-sided, against 0), ``p_corrected`` (Holm's correction [1]_ over all tests of the
        level), ``q`` (false discovery rate over the same; see ``analysis.statistics.p_values``),
        ``reason`` (why something is blank; empty if nothing is).

    Raises
    ------
    UnknownName
        If a metric is not a column of numbers other than the affinity itself.
    SettingsError
        If there is no metric, or another column is missing.

    Notes
    -----
    The unit of replication is the effective site for a model, as its sites depend on each other,
    the architecture for a family, and the family for all: architectures of one family are alike,
    and as so many units they find correlations where there are none (up to 0.31 at a level of 0.05
    in simulations of eight families of four). Were checkpoints counted, a family would be what its
    most often trained architecture is.

    The paper prints the deviation with n below the fraction bar, not n - 1 (its Table 1 against its
    Table 2); ``analysis.statistics.pearson.population_std`` turns one into the other.

    References
    ----------
    .. [1] S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian
       Journal of Statistics 6 (1979), 65-70.
    """
    sites = _Sites(signatures, metrics)
    models = sites.correlations(untrained=untrained)
    means = _means(models, metrics)
    if tested:
        models = models.join(sites.tests(models["pearson"].to_numpy()))
    return _table((models, means), signatures, untrained=untrained)


def mean_correlations(
    signatures: pd.DataFrame, metrics: Sequence[str] = PAPER_METRICS, *, untrained: bool = False
) -> pd.DataFrame:
    """Return the means of ``correlations``, without rows of models.

    Its parameters and errors are those of ``correlations``. ``attrs`` say how many ``models``
    there are: rows of thousands take longer than their means.
    """
    models = _Sites(signatures, metrics).correlations(untrained=untrained)
    result = _table((_means(models, metrics),), signatures, untrained=untrained)
    result.attrs["models"] = len(models) // len(metrics)
    return result


def _means(models: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    rows = (row for by in ("family", "all") for row in _mean_rows(models, metrics, by))
    return pd.DataFrame(rows)


def _table(
    parts: Iterable[pd.DataFrame], signatures: pd.DataFrame, *, untrained: bool
) -> pd.DataFrame:
    """Return rows of all levels as one table, with tests corrected for their number."""
    tables = [each.reindex(columns=list(COLUMNS)).astype(COLUMNS) for each in parts]
    result = carried(pd.concat(tables, ignore_index=True), signatures)
    for places in result.groupby("level").groups.values():
        result.loc[places, ["p_corrected", "q"]] = np.transpose(corrected(result.loc[places, "p"]))
    result.attrs["untrained"] = untrained
    return result


class _Sites:
    """The scores of each run, and its correlations, one a run and metric in this order."""

    def __init__(self, signatures: pd.DataFrame, metrics: Sequence[str]) -> None:
        require_columns(signatures, _NEEDED)
        if not metrics:
            reason = "no metric to correlate the affinity with"
            raise SettingsError(reason, hint="name at least one")
        numbers = _numbers(signatures)
        for metric in metrics:
            if metric not in numbers:
                raise UnknownName("metric", metric, numbers)
        self._signatures, self._metrics = signatures, metrics
        self._run = pd.factorize(signatures["run_id"])[0]
        self._affinity = signatures["affinity"].to_numpy(float)
        self._others = [signatures[metric].to_numpy(float) for metric in metrics]

    def correlations(self, *, untrained: bool) -> pd.DataFrame:
        """Return the rows of the models but for their tests, with what means are taken over."""
        # Runs are numbered as they appear.
        first = self._signatures.iloc[
            np.flatnonzero(np.diff(np.maximum.accumulate(self._run), prepend=-1))
        ]
        # Texts of Arrow are slow to take one by one.
        place = first.filter(_MEASURED_ON).astype("object")
        names, places = list(place), list(place.itertuples(index=False, name=None))
        datasets = {each: measured_on(dict(zip(names, each, strict=True))) for each in set(places)}
        runs = first[["source", "architecture", "checkpoint"]].assign(
            level="model",
            name=first["model"],
            family=first["family"].fillna("").astype(str),
            dataset=[datasets[each] for each in places],
            families=1,
            counts=untrained | trained(first["checkpoint"]),
        )
        # pandas copies a frame's provenance with each part of it.
        runs.attrs = {}
        # Texts are repeated, and means are taken over equal ones: codes take no time.
        runs = runs.astype(dict.fromkeys(runs.columns.drop(["families", "counts"]), "category"))
        rows = runs.iloc[np.arange(len(runs)).repeat(len(self._metrics))].reset_index(drop=True)
        each = pearson_by_group(self._affinity, self._others, self._run, len(runs))
        n, r = (column.ravel() for column in each)
        reasons = np.full(len(r), "", object)
        for lacking in np.flatnonzero(np.isnan(r)):
            reasons[lacking] = self._reason(int(lacking))
        metric = pd.Categorical(np.tile(np.asarray(self._metrics, object), len(runs)))
        return rows.assign(metric=metric, n=n, pearson=r, reason=reasons)

    def tests(self, r: Floats) -> pd.DataFrame:
        """Return ``n_effective``, ``low``, ``high`` and ``p`` of the coefficients."""
        rows = ({} if np.isnan(each) else self._test(place, each) for place, each in enumerate(r))
        return pd.DataFrame(rows)

    def _test(self, place: int, r: float) -> Row:
        affinity, other = self._pair(place)
        size = effective_pairs(affinity, other)
        low, high = correlation_interval(affinity, other)
        return {"n_effective": size, "low": low, "high": high, "p": correlation_p(r, size)}

    def _reason(self, place: int) -> str:
        affinity, _ = self._pair(place)
        if len(affinity) < LEAST_SITES:
            return f"{counted(len(affinity), 'site')}, at least {LEAST_SITES} are needed"
        name = "affinity" if constant(affinity) else self._metrics[place % len(self._metrics)]
        return f"{name} does not vary over the sites"

    def _pair(self, place: int) -> tuple[Floats, Floats]:
        """Return the affinities and the other values of a run's sites that have both."""
        run, metric = divmod(place, len(self._metrics))
        order, ends = self._by_run
        sites = order[ends[run] : ends[run + 1]]
        affinity, other = self._affinity[sites], self._others[metric][sites]
        kept = np.isfinite(affinity) & np.isfinite(other)
        return affinity[kept], other[kept]

    @cached_property
    def _by_run(self) -> tuple[Integers, Integers]:
        """The sites in the order of their runs, and where those of each run begin and end."""
        ends = np.bincount(self._run).cumsum()
        return execution_order(self._signatures), np.concatenate(([0], ends))


def _mean_rows(
    models: pd.DataFrame, metrics: Sequence[str], by: Literal["family", "all"]
) -> list[Row]:
    """Return the mean over each family, or over all, on each dataset by itself."""
    members = models.assign(name=models["family"] if by == "family" else "all")
    members["unit"] = families_of(models)
    members = members[members["name"] != ""]
    known = members[members["counts"] & members["pearson"].notna()]
    # Each architecture counts once, with the mean over its checkpoints.
    keys = ["name", "dataset", "metric"]
    point = [*keys, "unit", "source", "architecture"]
    values = dict(iter(checkpoint_means(known, point, ["pearson"])["pearson"].groupby(keys)))
    none = pd.Series(dtype="float64")
    groups = sorted(members[["name", "dataset"]].drop_duplicates().itertuples(False, None))
    return [
        {"level": by, "name": name, "family": name if by == "family" else "", "dataset": dataset}
        | {"metric": metric, **mean_numbers(values.get((name, dataset, metric), none), by)}
        for name, dataset in groups
        for metric in metrics
    ]


def mean_numbers(values: pd.Series[float], by: Literal["family", "all"]) -> Row:
    """Return the mean over architectures, with its interval and test."""
    n = len(values)
    if n == 0:
        return {"n": 0, "families": 0, "reason": "no architecture that counts has a correlation"}
    families = values.groupby("unit").mean()
    row: Row = {"n": n, "families": len(families), "pearson": float(values.mean())}
    if n == 1:
        return row | {"reason": "one architecture: no deviation, interval or test"}
    row["std"] = float(values.std())
    if by == "all":
        row["family_mean"] = float(families.mean())
    if by == "all" and len(families) == 1:
        return row | {"reason": "one family: no interval or test"}
    return row | _tested(np.asarray(families if by == "all" else values, float))


def _tested(units: Floats) -> Row:
    """Return Student's interval and test of the mean of units of replication."""
    if constant(units):
        return {"reason": "all alike: no test"}
    n, mean = len(units), float(units.mean())
    error = float(units.std(ddof=1)) / n**0.5
    half = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * error
    p = float(2 * stdtr(n - 1, -abs(mean) / error))
    # A mean of correlations lies in [-1, 1]; Student's interval may not.
    return {"low": max(mean - half, -1.0), "high": min(mean + half, 1.0), "p": p, "reason": ""}


def _numbers(frame: pd.DataFrame) -> list[str]:
    types = frame.dtypes.items()
    return [str(name) for name, kind in types if is_numeric_dtype(kind) and name != "affinity"]
