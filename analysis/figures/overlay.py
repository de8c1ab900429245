"""Signatures of a few models on one axis, and the alignment of two of them."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from analysis.data.validation import require_columns
from analysis.figures.figure import Figure, figure
from analysis.figures.marks.depth_axis import depth_choice, depths, over_depth
from analysis.figures.marks.hollow_marks import hollow_note
from analysis.figures.theme import QUIET, affinity_scale, lines_by
from analysis.statistics.dtw import dtw_path
from analysis.text import listed, number
from survey.errors import NothingToDraw
from survey.metrics import title_of

#: Width and height of the drawing, in pixels.
WIDTH, HEIGHT = 640, 300

#: Models that one drawing tells apart.
MOST_MODELS = 12

#: How far apart two aligned signatures are drawn, in ranges of their values.
_APART = 1.1


def overlay_rows(signatures: pd.DataFrame, value: str = "affinity") -> pd.DataFrame:
    """Return the sites of a figure of a few models, in the order of execution.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of the view ``signatures``.
    value : str
        The column that is drawn: a metric.

    Returns
    -------
    pandas.DataFrame
        ``run_id, model, site, site_name, activation, relative_depth, graph_depth, few_images``,
        and the value.
    """
    require_columns(signatures, ("run_id", "model", "site", value))
    rows = depths(signatures)
    names = ["run_id", "model", "site", "site_name", "activation", "relative_depth", "graph_depth"]
    return rows[[*names, value, "few_images"]]


def overlay_chart(signatures: pd.DataFrame, value: str = "affinity") -> Figure:
    """Draw the signatures of a few models on one axis; parameters as ``overlay_rows``.

    Raises
    ------
    NothingToDraw
        If no site has a value.
    """
    rows = overlay_rows(signatures, value).rename(columns={value: "affinity"})
    medians = rows.groupby("model")["affinity"].median().dropna().sort_values()
    if medians.empty:
        raise NothingToDraw(f"no site of these models has a value of {value}")
    looks = lines_by("model", sorted(rows["model"].unique()), WIDTH)
    title = title_of(value)

    def strokes(base: Any) -> Any:
        return base.mark_line(strokeWidth=1.4).encode(order="site:Q", detail="run_id:N", **looks)

    def points(base: Any) -> Any:
        shown = ["model:N", "site_name:N", "activation:N", alt.Tooltip("affinity:Q", title=title)]
        return base.mark_circle(size=22, opacity=1).encode(color=looks["color"], tooltip=shown)

    # On the whole axis the lines of many models lie on each other at its top.
    near = {"title": "affinity score", "scale": affinity_scale(rows["affinity"])}
    upwards = near if value == "affinity" else {"title": title}
    y = alt.Y("affinity:Q", axis=alt.Axis(tickCount=5), **upwards)
    return figure(
        over_depth(rows, strokes, points, width=WIDTH, height=HEIGHT, y=y),
        f"Median {title} goes from {number(medians.iloc[0])} ({medians.index[0]}) to"
        f" {number(medians.iloc[-1])} ({medians.index[-1]})",
        note="A gap where a site has no value." + hollow_note(rows),
        source=signatures,
        width=WIDTH + 40,
        params=[depth_choice(rows)],
    )


def alignment_rows(signatures: pd.DataFrame, value: str = "affinity") -> pd.DataFrame:
    """Return the sites of two models that dynamic time warping takes for each other.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of the view ``signatures`` of two runs.
    value : str
        The column that is aligned: a metric.

    Returns
    -------
    pandas.DataFrame
        One row a step of the path: of each model ``model, site, site_name`` and the value, the
        second one's with ``other_`` before it; and ``step``.

    Raises
    ------
    NothingToDraw
        If there are not two runs with values.
    """
    require_columns(signatures, ("run_id", "model", "site", "site_name", value))
    scored = signatures[signatures[value].notna()].sort_values("site")
    groups = [group for _, group in scored.groupby("run_id", sort=False)]
    if len(groups) != 2:
        raise NothingToDraw(f"an alignment is of two models with values of {value}")
    columns = ["model", "site", "site_name", value]
    first, second = (group[columns].reset_index(drop=True) for group in groups)
    places = dtw_path(first[value].to_numpy(), second[value].to_numpy())
    one = first.iloc[places[:, 0]].reset_index(drop=True)
    other = second.iloc[places[:, 1]].reset_index(drop=True).add_prefix("other_")
    return pd.concat([one, other], axis=1).assign(step=range(len(places)))


def alignment_chart(signatures: pd.DataFrame, value: str = "affinity") -> Figure:
    """Draw which sites of two models dynamic time warping aligns; see ``alignment_rows``."""
    rows = alignment_rows(signatures, value)
    rows = rows.rename(columns={value: "height", f"other_{value}": "other_height"})
    distance = float(np.sqrt(((rows["height"] - rows["other_height"]) ** 2).sum()))
    both = pd.concat([rows["height"], rows["other_height"]])
    apart = _APART * (float(both.max() - both.min()) or 1.0)
    rows["height"] += apart
    names = [str(rows["model"].iloc[0]), str(rows["other_model"].iloc[0])]
    x, y = (
        alt.X("site:Q", title="activation site"),
        alt.Y("height:Q", axis=None, scale=alt.Scale(zero=False)),
    )
    looks = lines_by("model", names, WIDTH)
    columns = ["model", "site", "height"]
    second = rows[[f"other_{name}" for name in columns]].set_axis(columns, axis=1)
    curves = pd.concat([rows[columns], second]).drop_duplicates()
    links = (
        alt.Chart(rows)
        .mark_rule(color=QUIET, strokeWidth=0.7)
        .encode(x=x, x2="other_site:Q", y=y, y2="other_height:Q")
    )
    lines = alt.Chart(curves).mark_line(point=True, strokeWidth=1.4).encode(x=x, y=y, **looks)
    return figure(
        alt.layer(links, lines, width=WIDTH, height=HEIGHT),
        f"{listed(names)} are {number(distance)} apart in {title_of(value)} by dynamic time"
        " warping",
        note="A line joins sites that are aligned; the upper signature is raised by"
        f" {number(apart)}.",
        source=signatures,
        width=WIDTH + 40,
    )
