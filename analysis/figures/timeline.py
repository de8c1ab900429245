"""Timeline: the range of each model's signature by the year of its architecture (Fig. 3)."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd

from analysis.figures.theme import QUIET, UNIT, UNKNOWN, Figure, families, figure, told_apart
from analysis.figures.words import number
from analysis.given import require_columns
from analysis.provenance import Provenance
from survey.words import counted

#: Width of a year and of a model within it, in pixels.
YEAR, MODEL = 34, 8


def timeline_rows(timeline: pd.DataFrame) -> pd.DataFrame:
    """Return what a timeline shows, one row a model with a year and a score.

    Parameters
    ----------
    timeline : pandas.DataFrame
        From ``analysis.history.timeline``.

    Returns
    -------
    pandas.DataFrame
        The same columns, and ``time``: the year, and within it the models side by side, by family
        and median, at most 0.4 of a year away from it.
    """
    require_columns(timeline, ("model", "year", "lowest", "median"), "timeline(signatures)")
    rows = timeline[timeline["year"].notna() & timeline["median"].notna()].copy()
    rows["family"] = rows["family"].fillna(UNKNOWN)
    rows["year"] = rows["year"].astype("int64")
    rows = rows.sort_values(["year", "family", "median", "model"], ignore_index=True)
    own = rows.groupby("year")["model"]
    among = own.cumcount() + 0.5
    rows["time"] = rows["year"] + 0.8 * (among / own.transform("size") - 0.5)
    return rows


def timeline_chart(timeline: pd.DataFrame, provenance: Provenance | None = None) -> Figure:
    """Draw the lowest, median and highest affinity of each model over the years.

    Parameters
    ----------
    timeline : pandas.DataFrame
        From ``analysis.history.timeline``.
    provenance : Provenance, optional
        The caption's facts, where the frame does not carry them.
    """
    rows = timeline_rows(timeline)
    first, last = (int(rows["year"].min()), int(rows["year"].max())) if len(rows) else (0, 0)
    busiest = int(rows["year"].value_counts().max()) if len(rows) else 1
    width = max(420, (last - first + 1) * max(YEAR, min(busiest * MODEL, 76)))
    names = families(rows)
    across = alt.X(
        "time:Q", title="year of the architecture",
        scale=alt.Scale(domain=[first - 0.5, last + 0.5], nice=False, zero=False),
        axis=alt.Axis(values=list(range(first, last + 1)), format="d", grid=False),
    )  # fmt: skip
    base = alt.Chart(rows).encode(x=across)
    ranges = base.mark_rule(color=QUIET, strokeWidth=1.2).encode(
        y=alt.Y("lowest:Q", title="affinity score", scale=UNIT), y2="highest:Q"
    )
    ends = [
        base.mark_tick(orient="horizontal", size=7, thickness=1.5, color=QUIET).encode(y=f"{end}:Q")
        for end in ("lowest", "highest")
    ]
    medians = base.mark_point(filled=True, opacity=1, size=52).encode(
        y="median:Q",
        **told_apart("family", names, width, "family"),
        tooltip=["model:N", "year:Q", "lowest:Q", "median:Q", "highest:Q", "sites:Q"],
    )
    left_out = len(timeline) - len(rows)
    return figure(
        alt.layer(ranges, *ends, medians).properties(width=width, height=300),
        _finding(rows),
        note="Marks: median of a model's sites; bars: lowest to highest."
        + (f" {counted(left_out, 'model')} without a year or score left out." if left_out else ""),
        source=timeline,
        provenance=provenance,
        width=width + 60,
    )


def _finding(rows: pd.DataFrame) -> str:
    if rows.empty:
        return "No model has both a year and a score"
    years = rows.groupby("year").agg(
        lowest=("lowest", "min"), highest=("highest", "max"), median=("median", "median"),
        models=("model", "size"),
    )  # fmt: skip
    first, last = years.index[0], years.index[-1]
    if first == last:
        return (
            f"Models of {first}: affinity from {number(years['lowest'].iloc[0])} to"
            f" {number(years['highest'].iloc[0])} (n = {years['models'].iloc[0]})"
        )
    spread = years["highest"] - years["lowest"]
    widest = years.index[int(np.argmax(spread))]
    return (
        f"The typical median affinity goes from {number(years['median'].iloc[0])} in {first} to"
        f" {number(years['median'].iloc[-1])} in {last}; scores spread widest in {widest}"
        f" ({number(years['lowest'][widest])} to {number(years['highest'][widest])};"
        f" n = {len(rows)} models)"
    )
