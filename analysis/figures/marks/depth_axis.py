"""The axis of depth: relative depth, and graph depth or site at a reader's choice.

Owns the toggle. A page has a list to choose from; SVG and PNG show relative depth.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from analysis.data.short_names import short_names
from analysis.data.validation import require_columns
from analysis.figures.marks.hollow_marks import few_images, hollowed
from analysis.figures.theme import FAINT, LABEL_SIZE, NOTE_SIZE, UNIT, Options, with_mark

#: Area of a mark on a line, in square pixels: a hollow one is seen to be so.
SMALL = 20.0

#: An axis of short numbers: without a limit of length Vega measures each once, not three times.
_NUMBERS: Options = {"tickCount": 5, "labelLimit": 0}

#: The columns of ``depths`` that a reader can choose, by their labels.
CHOICES = {"relative depth": "relative_depth", "graph depth": "graph_depth", "site": "site"}

#: The Vega expression of a row's chosen depth.
_CHOSEN = " : ".join(
    [f"depth_axis == '{words}' ? datum.{column}" for words, column in CHOICES.items()] + ["null"]
)


def depth_choice(rows: pd.DataFrame) -> Any:
    """Return the chart parameter by which a reader chooses the depth that is shown.

    Of networks without branches the graph depth is one more than the site, and both one choice.

    Parameters
    ----------
    rows : pandas.DataFrame
        The rows that are drawn, with every depth.
    """
    branches = not rows["graph_depth"].eq(rows["site"] + 1).fillna(value=False).all()
    options = [words for words, column in CHOICES.items() if branches or column != "site"]
    bound = alt.binding_select(options=options, name="Depth as ")
    return alt.param(name="depth_axis", value=options[0], bind=bound).param


def depths(signatures: pd.DataFrame) -> pd.DataFrame:
    """Return signatures with every depth that can be chosen.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of the view ``signatures``, with or without ``relative_depth``, ``graph_depth`` and
        ``model``.

    Returns
    -------
    pandas.DataFrame
        The same rows with ``relative_depth`` in [0, 1], ``graph_depth`` (the site's number, from
        1, where it is not known), ``model``, and ``few_images``: whether the site has that flag.
    """
    require_columns(signatures, ("run_id", "site", "affinity"))
    frame = signatures.copy()
    if "relative_depth" not in frame:
        last = frame.groupby("run_id")["site"].transform("max").clip(lower=1)
        frame["relative_depth"] = frame["site"] / last
    if "graph_depth" not in frame:
        frame["graph_depth"] = frame["site"] + 1
    if "model" not in frame:
        names = frame["checkpoint"].map(short_names(frame["checkpoint"]))
        frame["model"] = frame["architecture"] + " (" + names + ")"
    frame["few_images"] = few_images(frame)
    return frame


def over_depth(
    data: pd.DataFrame,
    *layers: Any,
    width: int,
    height: int,
    size: float = SMALL,
    y: alt.Y | None = None,
    shape: alt.Shape | None = None,
) -> Any:
    """Return layers over one axis of depth, with a dotted line where a site has no score.

    Marks of sites with the flag ``few_images`` are hollow.

    Parameters
    ----------
    data : pandas.DataFrame
        Rows of ``depths`` with ``affinity``.
    layers : functions
        Each takes a chart of the data, with depth to the right and affinity upwards, and returns
        a drawing.
    width, height : int
        Of the drawing, in pixels.
    size : float
        Area of the marks, in square pixels.
    y : altair.Y, optional
        The axis upwards, of the column ``affinity``; that of affinity scores by default.
    shape : altair.Shape, optional
        The shape of the marks, where they are no circles.
    """
    x = alt.X(
        "depth:Q",
        # A blank title keeps the room for the chosen words, which no axis can show.
        axis={"title": " ", "grid": False, **_NUMBERS},
        scale={"nice": False, "zero": True},
    )
    y = y or alt.Y("affinity:Q", title="affinity score", scale=UNIT, axis=_NUMBERS)
    # Data given to the whole chart are written once, those of layers once a layer.
    base = alt.Chart().transform_calculate(depth=_CHOSEN).encode(x=x)
    blank = base.transform_filter("!isValid(datum.affinity)")
    dotted = with_mark(blank, "rule", strokeDash=[1, 3], color="#555555", strokeWidth=1)
    missing = [dotted] if data["affinity"].isna().any() else []
    labels = with_mark(
        alt.Chart(alt.InlineData(values=[{"shown": 0}])), "text",
        text={"expr": "depth_axis"}, x=width / 2, y=height + LABEL_SIZE + 19, fontSize=NOTE_SIZE,
        color="#222222",
    )  # fmt: skip
    drawn = [layer(base.encode(y=y)) for layer in layers]
    drawn += hollowed(base.encode(y=y), data, size, shape)
    return alt.layer(*missing, *drawn, labels, data=data, width=width, height=height)


def thread(base: Any) -> Any:
    """Return a thin line through the sites, in order; it breaks where a score is missing."""
    line = with_mark(base, "line", color=FAINT, strokeWidth=1)
    return line.encode(order=alt.Order("site:Q"), detail=alt.Detail("run_id:N"))
