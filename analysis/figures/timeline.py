"""Timeline: the range of each model's signature by the year of its architecture (Fig. 3)."""

from __future__ import annotations

import hashlib
from typing import Any

import altair as alt
import pandas as pd

from analysis.data.validation import require_columns
from analysis.figures.figure import Figure, figure
from analysis.figures.marks.model_colours import FAMILIES, ModelColours
from analysis.figures.theme import ACCENT, FAINT, LABEL_SIZE, QUIET, UNIT
from analysis.relations.timeline import timeline_finding
from survey.text import counted

#: Width of a year and of a model within it, in pixels.
YEAR, MODEL = 34, 8

#: Models of a year up to which each is drawn; more are a box.
MOST = 12

_KEPT = "Marks: median of a model's sites; bars: lowest to highest."
_BOXED = (
    f"Boxes, of years with more than {MOST} models: quartiles of the models' medians, bars from"
    " the lowest score of any site to the highest."
)


def timeline_rows(timeline: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges of a timeline, one row a model with a year and a score.

    Parameters
    ----------
    timeline : pandas.DataFrame
        From ``analysis.relations.timeline.timeline``.

    Returns
    -------
    pandas.DataFrame
        The same columns, and ``time``: the year, and within it the models side by side in an order
        that says nothing of them, at most 0.4 of a year away from it.
    """
    return _side_by_side(_dated(timeline))


def _dated(timeline: pd.DataFrame) -> pd.DataFrame:
    require_columns(timeline, ("model", "year", "lowest", "median"), "timeline(signatures)")
    rows = timeline[timeline["year"].notna() & timeline["median"].notna()]
    return rows.assign(year=rows["year"].astype("int64"))


def _side_by_side(rows: pd.DataFrame) -> pd.DataFrame:
    # Any order that means something would look like a trend within the year.
    shuffled = rows.sort_values("model", key=lambda names: names.map(_hashed)).groupby("year")
    among = shuffled["model"].cumcount().reindex(rows.index) + 0.5
    size = rows.groupby("year")["model"].transform("size")
    placed = rows.assign(time=rows["year"] + 0.8 * (among / size - 0.5))
    return placed.sort_values(["time", "model"], ignore_index=True)


def crowded_years(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the quartiles of years with more than ``MOST`` models, one row a year.

    Parameters
    ----------
    rows : pandas.DataFrame
        From ``timeline_rows``.

    Returns
    -------
    pandas.DataFrame
        ``year``, ``lowest``, ``first_quartile``, ``median``, ``third_quartile`` (of the models'
        medians), ``highest``, ``models``.
    """
    years = rows.groupby("year").agg(
        lowest=("lowest", "min"), first_quartile=("median", lambda group: group.quantile(0.25)),
        median=("median", "median"), third_quartile=("median", lambda group: group.quantile(0.75)),
        highest=("highest", "max"), models=("model", "size"),
    )  # fmt: skip
    return years[years["models"] > MOST].reset_index()


def timeline_chart(timeline: pd.DataFrame, colours: ModelColours = FAMILIES) -> Figure:
    """Draw the lowest, median and highest affinity of each model over the years.

    A year of more than ``MOST`` models is one box, of the quartiles of their medians.

    Parameters
    ----------
    timeline : pandas.DataFrame
        See ``timeline_rows``.
    colours : ModelColours
        What colour and shape of the medians stand for.
    """
    rows = _dated(timeline)
    first, last = (int(rows["year"].min()), int(rows["year"].max())) if len(rows) else (0, 0)
    busiest = int(rows["year"].value_counts().max()) if len(rows) else 1
    width = max(420, (last - first + 1) * max(YEAR, min(busiest * MODEL, 76)))
    across = alt.X(
        "time:Q", title="year of the architecture",
        scale=alt.Scale(domain=[first - 0.5, last + 0.5], nice=False, zero=False),
        axis=alt.Axis(values=list(range(first, last + 1)), format="d", grid=False),
    )  # fmt: skip
    crowded = crowded_years(rows)
    single = _side_by_side(rows[~rows["year"].isin(crowded["year"])])
    layers = [*_boxes(crowded, across, 0.5 * width / (last - first + 1))] if len(crowded) else []
    layers += _models(single, across, width, colours) if len(single) or not len(crowded) else []
    left_out = len(timeline) - len(rows)
    note = " ".join([*([_KEPT] if len(single) else []), *([_BOXED] if len(crowded) else [])])
    return figure(
        alt.layer(*layers, width=width, height=300),
        timeline_finding(timeline),
        note=note
        + (f" {counted(left_out, 'model')} without a year or score left out." if left_out else ""),
        source=timeline,
        width=width + 60,
    )


def _hashed(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def _ranges(rows: pd.DataFrame, across: alt.X) -> tuple[Any, list[Any]]:
    """Return a chart of rows over time, and bars from lowest to highest."""
    base = alt.Chart(rows).encode(x=across)
    whole = base.mark_rule(color=QUIET, strokeWidth=1.2).encode(
        y=alt.Y("lowest:Q", title="affinity score", scale=UNIT), y2="highest:Q"
    )
    ends = [
        base.mark_tick(orient="horizontal", size=7, thickness=1.5, color=QUIET).encode(y=f"{end}:Q")
        for end in ("lowest", "highest")
    ]
    return base, [whole, *ends]


def _models(rows: pd.DataFrame, across: alt.X, width: float, colours: ModelColours) -> list[Any]:
    rows = rows.assign(colour=colours.of(rows))
    base, bars = _ranges(rows, across)
    medians = base.mark_point(filled=True, opacity=1, size=52).encode(
        y="median:Q",
        **colours.marks(rows, width),
        tooltip=["model:N", "year:Q", "lowest:Q", "median:Q", "highest:Q", "sites:Q"],
    )
    return [*bars, medians]


def _boxes(years: pd.DataFrame, across: alt.X, width: float) -> list[Any]:
    counts = years["models"].map("n = {:,}".format)
    base, bars = _ranges(years.assign(time=years["year"], count=counts), across)
    box = base.mark_bar(size=min(width, 30), color=FAINT, stroke=QUIET, opacity=1).encode(
        y="first_quartile:Q", y2="third_quartile:Q",
        tooltip=["year:Q", *(f"{name}:Q" for name in years.columns[1:])],
    )  # fmt: skip
    middle = base.mark_tick(
        orient="horizontal", size=min(width, 30), thickness=2.5, color=ACCENT
    ).encode(y="median:Q")
    labels = base.mark_text(dy=-8, fontSize=LABEL_SIZE, color="#222222").encode(
        y="highest:Q", text="count:N"
    )
    return [*bars, box, middle, labels]
