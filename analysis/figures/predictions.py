"""Predictions: the family that the nearest neighbours suggest, against the true one."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from analysis.data.validation import require_columns
from analysis.figures.figure import Figure, figure
from analysis.figures.theme import ACCENT, LABEL_SIZE, NOTE_SIZE, names_down, text_width
from analysis.similarity.family_predictions import predictions_finding
from analysis.text import listed
from survey.errors import NothingToDraw
from survey.text import counted

#: Side of a cell where families are few and where they are many, in pixels.
WIDE, NARROW = 34, 22

#: Families beyond which they are many.
FEW = 14

#: Families that cannot be predicted that are named; the others are counted.
NAMED = 12


def prediction_rows(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the cells of a confusion matrix, one row a family and a predicted family.

    Parameters
    ----------
    predictions : pandas.DataFrame
        From ``analysis.family_predictions``.

    Returns
    -------
    pandas.DataFrame
        ``family`` (of counted models that could be predicted), ``predicted`` (any of these, and any
        other that was predicted), ``models`` (how many), ``share`` (of the family's predicted
        models, in [0, 1]), ``right`` (whether both are the same).
    """
    source = "family_predictions(distance_matrix(signatures))"
    require_columns(predictions, ("family", "predicted", "right"), source)
    known = predictions[predictions["right"].notna()]
    group = sorted(known["family"].unique(), key=str.lower)
    every = sorted({*group, *known["predicted"]}, key=str.lower)
    cells = pd.MultiIndex.from_product([group, every], names=["family", "predicted"])
    counts = known.groupby(["family", "predicted"]).size().reindex(cells, fill_value=0)
    rows = counts.rename("models").reset_index()
    rows["share"] = rows["models"] / rows.groupby("family")["models"].transform("sum")
    rows["right"] = rows["family"] == rows["predicted"]
    return rows


def prediction_chart(predictions: pd.DataFrame) -> Figure:
    """Draw the confusion matrix of families, a cell stronger the larger its share of a row.

    Its parameters are those of ``prediction_rows``.

    Raises
    ------
    NothingToDraw
        If no family has two architectures.
    """
    cells = prediction_rows(predictions)
    if cells.empty:
        raise NothingToDraw("no family has two architectures")
    order = list(dict.fromkeys(cells["predicted"]))
    side = WIDE if len(order) <= FEW else NARROW
    wide = side * len(order) + text_width(cells["family"]) + 60
    return figure(
        _matrix(cells, order, side),
        predictions_finding(predictions),
        note=_note(predictions),
        source=predictions,
        width=int(max(wide, 480)),
    )


def _matrix(cells: pd.DataFrame, order: list[str], side: int) -> Any:
    group = list(dict.fromkeys(cells["family"]))
    axis = alt.Axis(labelAngle=-60, labelOverlap=False, ticks=False, domain=False)
    base = alt.Chart(cells).encode(
        x=alt.X("predicted:N", title="predicted family", sort=order, axis=axis),
        y=names_down("family", group, ticks=False, domain=False).title("family"),
    )
    shades = alt.Scale(domain=[0, 1], range=["#F2F5F9", ACCENT])
    squares = base.mark_rect(stroke="white").encode(
        color=alt.Color("share:Q", scale=shades, legend=None),
        tooltip=["family:N", "predicted:N", "models:Q", "share:Q"],
    )
    right = base.transform_filter("datum.right").mark_rect(
        filled=False, stroke="black", strokeWidth=1.5
    )
    numbers = (
        base.transform_filter("datum.models > 0")
        .mark_text(fontSize=NOTE_SIZE if side == WIDE else LABEL_SIZE)
        .encode(
            text="models:Q",
            color=alt.condition("datum.share > 0.5", alt.value("white"), alt.value("black")),
        )
    )
    drawn: Any = alt.layer(squares, right, numbers)
    return drawn.properties(width=side * len(order), height=side * len(group))


def _note(predictions: pd.DataFrame) -> str:
    votes = predictions.attrs.get("neighbours", 1)
    how = "its nearest neighbour" if votes == 1 else f"the vote of its {votes} nearest neighbours"
    text = f"Each model's family by {how} of other architectures. Numbers:"
    text += " models, the stronger the more of their family; framed: right."
    random = int((predictions["predicted"].notna() & predictions["right"].isna()).sum())
    text += f" Not counted: {counted(random, 'model')} of random weights." if random else ""
    blank = predictions[predictions["predicted"].isna()]
    if blank.empty:
        return text
    alone = sorted(blank["family"].dropna().unique(), key=str.lower)
    unknown = int(blank["family"].isna().sum())
    each = " each" if len(alone) > 1 else ""
    which = [f"{listed(alone, NAMED)}, of one architecture{each}"] if alone else []
    which += [f"{counted(unknown, 'model')} of unknown family"] if unknown else []
    return f"{text} Cannot be predicted: {'; '.join(which)}."
