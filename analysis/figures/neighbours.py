"""Neighbours: the models with the nearest signatures, and those unlike any family."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from analysis.data.validation import require_columns
from analysis.figures.figure import Figure, figure, head, side_by_side
from analysis.figures.marks.model_colours import FAMILIES, ModelColours
from analysis.figures.theme import (
    ACCENT,
    CONTRAST,
    LABEL_SIZE,
    QUIET,
    UNKNOWN,
    legend,
    names_down,
    text_width,
)
from analysis.similarity.neighbours import neighbours_finding
from analysis.similarity.novelty import novelty_finding
from survey.text import counted

#: Width of the bars, of those in panels, and height of a row, in pixels.
WIDTH, NARROW, ROW = 320, 130, 18

#: Rows up to which a figure can be looked at whole.
MOST_ROWS = 200

#: Panels side by side.
COLUMNS = 3


def neighbour_rows(neighbours: pd.DataFrame) -> pd.DataFrame:
    """Return the bars, one row a model and neighbour, the nearest first.

    Parameters
    ----------
    neighbours : pandas.DataFrame
        From ``analysis.similarity.neighbours.neighbours``.

    Returns
    -------
    pandas.DataFrame
        Its columns, and ``label`` (the neighbour with its family) and ``kin`` (whether it is of
        the model's family: ``same family``, ``other family`` or ``unknown``).
    """
    require_columns(neighbours, ("rank", "other_model"), "neighbours(distance_matrix(signatures))")
    rows = neighbours.sort_values(["model", "rank"], kind="stable").reset_index(drop=True)
    family = rows["other_family"].fillna(UNKNOWN)
    rows["label"] = rows["other_model"] + " (" + family + ")"
    same = (rows["family"] == rows["other_family"]).map(
        {True: "same family", False: "other family"}
    )
    known = rows["family"].notna() & rows["other_family"].notna()
    rows["kin"] = same.where(known, UNKNOWN)
    return rows


def neighbour_chart(neighbours: pd.DataFrame) -> Figure:
    """Draw the distances to each model's nearest neighbours, a panel a model, or a row if one each.

    Its parameters are those of ``neighbour_rows``.
    """
    rows = neighbour_rows(neighbours)
    several = rows["model"].nunique() > 1
    single = several and bool((rows["rank"] == 1).all())
    long = len(rows) > MOST_ROWS
    body, width = _one_each(rows) if single else _panels(rows, alone=not several)
    return figure(
        body,
        neighbours_finding(neighbours),
        note="DTW distance between signatures; the shorter the bar, the more alike."
        + (f" {len(rows):,} rows: the option family and others narrow them." if long else ""),
        source=neighbours,
        width=max(int(width), 420),
    )


def novelty_rows(novelty: pd.DataFrame, most: int | None = None) -> pd.DataFrame:
    """Return the ranking, one row a model with a score, the most unlike first.

    Parameters
    ----------
    novelty : pandas.DataFrame
        From ``analysis.similarity.novelty.novelty``.
    most : int, optional
        Only so many, the most unlike.

    Returns
    -------
    pandas.DataFrame
        Its columns, and ``place`` (from 1) and ``label`` (the model with its nearest family).
    """
    require_columns(novelty, ("novelty", "nearest_family"), "novelty(distance_matrix(signatures))")
    rows = novelty[novelty["novelty"].notna()].copy()
    rows = rows.sort_values(["novelty", "model"], ascending=[False, True], ignore_index=True)
    rows["place"] = rows.index + 1
    rows["label"] = rows["model"] + " (nearest: " + rows["nearest_family"].fillna(UNKNOWN) + ")"
    return rows.head(len(rows) if most is None else most).copy()


def novelty_chart(
    novelty: pd.DataFrame, most: int | None = None, colours: ModelColours = FAMILIES
) -> Figure:
    """Draw how unlike any other family each model is, the most unlike first.

    Parameters
    ----------
    novelty, most
        See ``novelty_rows``.
    colours : ModelColours
        What colour and shape stand for.
    """
    every = novelty_rows(novelty)
    rows = novelty_rows(novelty, most)
    rows["colour"] = colours.of(rows)
    order = list(rows["label"])
    base = alt.Chart(rows).encode(
        x=alt.X("novelty:Q", title="novelty", scale=alt.Scale(zero=True)),
        y=names_down("label", order),
    )
    stems = base.mark_rule(color=QUIET).encode(x2=alt.datum(0))
    points = base.mark_point(filled=True, opacity=1, size=50).encode(
        **colours.marks(rows, WIDTH + 160)
    )
    left_out = len(novelty) - len(every)
    return figure(
        alt.layer(stems, points, width=WIDTH, height=ROW * max(len(rows), 1)),
        novelty_finding(novelty),
        note="Distance to the nearest architecture of a known family, over what is usual between"
        " architectures of one family: at 1 as near as relatives are."
        + (f" The {len(rows)} most unlike of {len(every):,}." if len(rows) < len(every) else "")
        + (f" {counted(left_out, 'model')} without a score left out." if left_out else ""),
        source=novelty,
        width=int(max(WIDTH + text_width(order), 480)),
    )


def _panels(rows: pd.DataFrame, *, alone: bool) -> tuple[Any, float]:
    """Return a panel a model with a bar a neighbour, and its width."""
    wide = WIDTH if alone else NARROW
    reach = 1.25 * _furthest(rows)
    panels = [
        _bars(group, "label", alt.Text("distance:Q", format=".2f"), reach).properties(
            width=wide, height=ROW * len(group), **({} if alone else {"title": head(str(name))})
        )
        for name, group in rows.groupby("model", sort=False)
    ]
    width = min(len(panels), COLUMNS) * (wide + text_width(rows["label"]) + 40)
    return side_by_side(panels, COLUMNS, "there is no other model"), width


def _one_each(rows: pd.DataFrame) -> tuple[Any, float]:
    """Return a row a model with its one neighbour behind the bar, and its width."""
    # The colour tells the family where it is the same.
    names = rows["other_model"].where(rows["kin"] == "same family", rows["label"])
    text = rows["distance"].map(lambda distance: f"{distance:.2f}  ") + names
    room = text_width(text) + 10
    reach = _furthest(rows) * (WIDTH + room) / WIDTH
    drawn = _bars(rows.assign(shown=text), "model", alt.Text("shown:N"), reach)
    # A narrow drawing ends within the text, which a frame would cross.
    sized = drawn.properties(
        width=WIDTH + room, height=ROW * len(rows), view=alt.ViewBackground(stroke=None)
    )
    return sized, WIDTH + room + text_width(rows["model"])


def _furthest(rows: pd.DataFrame) -> float:
    return float(rows["distance"].max() or 1.0) if len(rows) else 1.0


def _bars(rows: pd.DataFrame, name: str, text: alt.Text, reach: float) -> Any:
    kinds = {"same family": ACCENT, "other family": CONTRAST, UNKNOWN: QUIET}
    kin = alt.Scale(domain=list(kinds), range=list(kinds.values()))
    scale = alt.Scale(domain=[0, reach], nice=False)
    base = alt.Chart(rows).encode(
        x=alt.X("distance:Q", title="distance", scale=scale, axis=alt.Axis(tickCount=4)),
        y=names_down(name, list(rows[name])),
    )
    bars = base.mark_bar(size=ROW - 7).encode(
        color=alt.Color("kin:N", scale=kin, legend=legend(columns=3))
    )
    labels = base.mark_text(align="left", dx=4, fontSize=LABEL_SIZE).encode(text=text)
    return alt.layer(bars, labels)
