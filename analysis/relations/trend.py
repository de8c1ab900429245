"""Trends: the affinity of runs over a number that is known of them, such as the epoch of training.

The runs of one network are a line; its sites are followed one by one, and in their mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pandas as pd

from analysis.array_types import Floats, Strings
from analysis.data.model_names import measured_on
from analysis.data.rows_of_runs import of_runs
from analysis.data.run_tags import column_of_numbers, numbers_of, run_column, tag_names
from analysis.data.tables import Row, result_table
from analysis.data.tag_conditions import PREFIX
from analysis.data.validation import MODELS, require_columns
from analysis.statistics.pearson import constant, pearson_where_known
from analysis.text import as_given, missing, number
from survey.text import counted

#: Tags that are the natural axis where none is named, the first first.
PREFERRED = ("epoch", "step")

#: A change of the mean affinity that is called one.
CHANGE = 0.01

#: What is in the place of a site for the mean over sites.
MEAN = "mean of sites"

COLUMNS = {
    **dict.fromkeys(("network", "against", "site_name"), "str"),
    "site": "Int64",
    "n": "int64",
    **dict.fromkeys(("lowest", "highest", "at_lowest", "at_highest"), "float64"),
    **dict.fromkeys(("change", "slope", "pearson"), "float64"),
    "reason": "str",
}

#: Columns of points that a trend is computed from.
_OF_TREND = ("network", "line", "against", "site_name", "site", "value", "affinity")

_LINE = ("source", "architecture", "dataset", "pooling")


def default_column(models: pd.DataFrame) -> str | None:
    """Return the tag that differs in number among runs, an epoch or step before others; or None."""
    varying = [
        name
        for name in tag_names(models)
        if numbers_of(run_column(models, PREFIX + name)).nunique() > 1
    ]
    chosen = next((name for name in (*PREFERRED, *varying) if name in varying), None)
    return None if chosen is None else PREFIX + chosen


def trend_points(
    signatures: pd.DataFrame,
    models: pd.DataFrame,
    against: str | None = None,
    by: Sequence[str] = (),
) -> pd.DataFrame:
    """Return the sites of the runs that have a number to be drawn over, and their mean.

    Parameters
    ----------
    signatures, models : pandas.DataFrame
        Rows of ``analysis.signatures`` and of ``analysis.models``.
    against : str, optional
        The number: a tag, such as ``tags.epoch``, or a column of ``models``; by default a tag whose
        values differ, ``epoch`` or ``step`` first.
    by : sequence of str
        Tags or columns of ``models`` by which the runs of one network are different lines.

    Returns
    -------
    pandas.DataFrame
        One row a run and site, and one a run with ``site`` missing, which holds the mean over the
        sites that have a score in every run of the line that has any: ``network``, ``line`` (the
        values of ``by``; empty without), ``run_id``, ``model``, ``against``, ``value``, ``site``,
        ``site_name``, ``relative_depth``, ``affinity``.

    Raises
    ------
    UnknownName
        If there is no such column or tag.
    SettingsError
        If it has no number.
    """
    require_columns(signatures, ("run_id", "site", "site_name", "affinity", "relative_depth"))
    require_columns(models, ("run_id", "model", *_LINE), MODELS)
    # Runs whose scores do not count, such as those of random weights, choose no tag and no names.
    models = of_runs(models, signatures)
    against = against or default_column(models)
    runs = models[["run_id", "model"]].assign(
        network=_networks(models),
        line=_lines(models, by),
        against=against or "",
        value=column_of_numbers(models, against, "drawn over it") if against else np.nan,
    )
    runs = runs[runs["value"].notna()]
    sites = runs.merge(
        signatures[["run_id", "site", "site_name", "relative_depth", "affinity"]], on="run_id"
    )
    points = pd.concat([sites, _means(sites)], ignore_index=True).astype({"site": "Int64"})
    return points.sort_values(["network", "line", "site", "value", "run_id"], ignore_index=True)


def trends(
    signatures: pd.DataFrame,
    models: pd.DataFrame,
    against: str | None = None,
    by: Sequence[str] = (),
) -> pd.DataFrame:
    """Regress the affinity of each line of runs on a number that is known of them.

    Parameters
    ----------
    signatures, models, against, by
        See ``trend_points``.

    Returns
    -------
    pandas.DataFrame
        One row a line and site, the mean over sites first: ``network`` (with the values of ``by``),
        ``against``, ``site_name``, ``site`` (missing for the mean), ``n`` (runs with a score),
        ``lowest`` and ``highest`` (value), ``at_lowest`` and ``at_highest`` (the mean affinity of
        the runs there), ``change`` (their difference), ``slope`` (affinity per unit, least
        squares), ``pearson``, ``reason`` (why something is blank). There is no p-value: the runs of
        one training follow one another, and are not independent.
    """
    points = trend_points(signatures, models, against, by)
    groups = points.groupby(["network", "line", "site"], sort=False, dropna=False).ngroup()
    edges = [*np.flatnonzero(np.diff(groups, prepend=-1)), len(points)]
    # As arrays: there may be fifty thousand of them, and a frame each takes most of the time.
    columns = [points[name].to_numpy() for name in _OF_TREND]
    rows = [_trend(*(each[start:stop] for each in columns)) for start, stop in pairwise(edges)]
    rows.sort(key=lambda row: (row["network"], not pd.isna(row["site"])))
    return result_table(rows, COLUMNS, of_runs(signatures, points))


def trends_finding(trends: pd.DataFrame) -> str:
    """Return how the mean affinity changes over the number, as a sentence.

    Parameters
    ----------
    trends : pandas.DataFrame
        From ``trends``.
    """
    means = trends[trends["site"].isna() & trends["change"].notna()]
    if len(trends) and means.empty:
        reason = str(trends["reason"].iloc[0])
        return f"{reason[0].upper()}{reason[1:]}"
    if means.empty:
        return (
            "No tag with several numbers is known of the selected runs: a survey gives its runs"
            " tags, and survey tag does later"
        )
    largest = means.iloc[int(np.argmax(means["change"].abs()))]
    unit = largest["against"].removeprefix(PREFIX)
    start, end = number(largest["at_lowest"]), number(largest["at_highest"])
    low, high = (f"at {unit} {as_given(largest[name])}" for name in ("lowest", "highest"))
    moves = f"{_moves(largest['change'])} from {start} {low} to {end} {high}"
    sentence = (
        f"The mean affinity of {largest['network']}"
        f" {f'is {start} {low} and {high}' if start == end else moves}"
        f" ({_r(largest['pearson'])}{counted(largest['n'], 'run')})"
    )
    if len(means) == 1:
        return sentence
    falling, rising = (int((sign * means["change"] >= CHANGE).sum()) for sign in (-1, 1))
    return f"{sentence}, the most of {len(means)} lines, of which {falling} fall and {rising} rise"


def _networks(models: pd.DataFrame) -> list[str]:
    """Return the network of each run, with what it was measured on where that differs."""
    rows = models.to_dict("records")
    places = [measured_on(row) for row in rows]
    several = len(set(places)) > 1
    sources = models.groupby("architecture")["source"].transform("nunique") > 1
    return [
        (f"{row['source']}:" if source else "")
        + str(row["architecture"])
        + (f" on {place}" if several else "")
        for row, place, source in zip(rows, places, sources, strict=True)
    ]


def _lines(models: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """Return the values of ``by`` of each run, such as ``lr 0.1, seed 0``."""
    columns = {name.removeprefix(PREFIX): run_column(models, name) for name in by}
    texts = [[f"{name} {_text(value)}" for value in values] for name, values in columns.items()]
    return [", ".join(each) for each in zip(*texts, strict=True)] if texts else [""] * len(models)


def _text(value: object) -> str:
    return "unknown" if missing(value) else as_given(value)


def _means(sites: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of each run over the sites with a score in every scored run of its line."""
    line = ["network", "line"]
    scored = sites[sites["affinity"].notna()]
    every = scored.groupby(line)["run_id"].transform("nunique")
    shared = scored[scored.groupby([*line, "site"])["run_id"].transform("size") == every]
    means = shared.groupby("run_id")["affinity"].mean()
    runs = sites.drop_duplicates("run_id").drop(columns=["affinity", "site", "relative_depth"])
    return runs.assign(site_name=MEAN, affinity=runs["run_id"].map(means))


def _trend(
    networks: Strings,
    lines: Strings,
    against: Strings,
    names: Strings,
    sites: Strings,
    values: Floats,
    affinities: Floats,
) -> Row:
    """Return the trend of a site, or of the mean over sites."""
    known = ~np.isnan(affinities)
    x, y = values[known], affinities[known]
    row: Row = {"against": against[0], "site_name": names[0], "site": sites[0]}
    row |= {"network": ", ".join(filter(None, (networks[0], lines[0]))), "n": len(x), "reason": ""}
    if len(x) < 2 or constant(x):
        return row | {"reason": f"no score at two values of {against[0]}"}
    ends = [(end, float(y[x == end].mean())) for end in (x.min(), x.max())]
    (lowest, at_lowest), (highest, at_highest) = ends
    from_mean = x - x.mean()
    return row | {
        "lowest": lowest, "highest": highest, "at_lowest": at_lowest, "at_highest": at_highest,
        "change": at_highest - at_lowest,
        "slope": float(from_mean @ (y - y.mean()) / (from_mean @ from_mean)),
        "pearson": pearson_where_known(x, y),
    }  # fmt: skip


def _r(pearson: float) -> str:
    return "" if missing(pearson) else f"r {number(pearson)}, "


def _moves(change: float) -> str:
    return "hardly moves" if abs(change) < CHANGE else "rises" if change > 0 else "falls"
