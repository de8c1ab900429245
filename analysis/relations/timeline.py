"""Timeline: the range of each model's signature by the year of its architecture (Fig. 3)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.data.families import families_of
from analysis.data.provenance import carried
from analysis.data.validation import require_columns
from analysis.statistics.trend import Trend
from analysis.text import number, span
from survey.text import counted

COLUMNS = {
    **dict.fromkeys(("run_id", "model", "source", "architecture", "family", "family_group"), "str"),
    "year": "Int64",
    **dict.fromkeys(("lowest", "median", "highest"), "float64"),
    "sites": "int64",
}

_OF_RUN = ("model", "source", "architecture", "family", "family_group", "year")

_NEEDED = ("run_id", *_OF_RUN, "affinity")


def timeline(signatures: pd.DataFrame) -> pd.DataFrame:
    """Return the lowest, median and highest affinity of every model, oldest first.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``: ``run_id``, ``model``, ``source``, ``architecture``,
        ``family``, ``family_group``, ``year`` and ``affinity``.

    Returns
    -------
    pandas.DataFrame
        One row a model: ``run_id``, ``model``, ``source``, ``architecture``, ``family``,
        ``family_group``, ``year`` (of the architecture; missing where it is not known, and then
        last), ``lowest``, ``median`` and ``highest`` affinity over its sites (NaN without any),
        ``sites`` (that have an affinity). In the order of year, family, median, model.

    Raises
    ------
    SettingsError
        If a column is missing.
    """
    require_columns(signatures, _NEEDED)
    by_run = signatures.groupby("run_id", sort=False)
    scores = by_run["affinity"].agg(lowest="min", median="median", highest="max", sites="count")
    # What describes a run is the same in all of its rows.
    rows = signatures.drop_duplicates("run_id").set_index("run_id")[list(_OF_RUN)].join(scores)
    rows["year"] = pd.to_numeric(rows["year"])
    ordered = rows.sort_values(["year", "family", "median", "model"], na_position="last")
    return carried(ordered.reset_index().astype(COLUMNS)[list(COLUMNS)], signatures)


def timeline_finding(timeline: pd.DataFrame) -> str:
    """Return how the typical affinity changed from the first year to the last, as a sentence.

    It is said to change where the trend over architectures is beyond chance, and its ends differ as
    they are printed.

    Parameters
    ----------
    timeline : pandas.DataFrame
        From ``timeline``.
    """
    rows = timeline[timeline["year"].notna() & timeline["median"].notna()]
    if rows.empty:
        return "No model has both a year and a score"
    years = rows.groupby("year").agg(
        lowest=("lowest", "min"), highest=("highest", "max"), median=("median", "median"),
    )  # fmt: skip
    ranges = zip(years["lowest"], years["highest"], strict=True)
    ends = dict(zip(years.index, (span(*each) for each in ranges), strict=True))
    first, last = years.index[0], years.index[-1]
    if first == last:
        return f"Models of {first}: affinity {ends[first]} (n = {len(rows)})"
    spread = (years["highest"] - years["lowest"]).round(2)
    widest = years.index[int(np.argmax(spread))]
    # Where all years print the same spread, none has the widest.
    wide = f"; scores spread widest in {widest} ({ends[widest]})" if spread.nunique() > 1 else ""
    # The weights of one architecture have one year: they tell no more of a trend than one of them.
    by_architecture = rows.groupby(["source", "architecture"])
    means = by_architecture[["year", "median"]].mean()
    families = families_of(by_architecture["family"].first().reset_index())
    trend = Trend.of(means["year"], means["median"], families)
    start, end = years["median"].iloc[0], years["median"].iloc[-1]
    of_families = counted(families.nunique(), "family", "families")
    tested = f"{trend}, {counted(trend.n, 'architecture')} of {of_families}"
    if verb := trend.verb(start, end):
        lead = f"{verb} from {number(start)} in {first} to {number(end)} in {last} ({tested})"
    else:
        lead = (
            f"shows no trend over the years: {number(start)} in {first}, {number(end)} in {last}"
            f" ({tested})"
        )
    return f"The typical median affinity {lead}; n = {counted(len(rows), 'model')}{wide}"
