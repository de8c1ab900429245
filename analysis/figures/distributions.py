"""Distributions of affinity scores: a density and a strip of sites a model or family (Fig. 5C)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import altair as alt
import numpy as np
import pandas as pd

from analysis.data.random_weights import trained
from analysis.data.validation import require_columns
from analysis.figures.figure import Figure, figure, first_of
from analysis.figures.marks.hollow_marks import few_images, hollow_note
from analysis.figures.theme import ACCENT, UNKNOWN, affinity_across, text_width
from analysis.relations.score_shapes import LEAST_SITES, density, shapes_finding
from analysis.text import number, range_finding
from survey.text import counted, printable

By = Literal["model", "family"]

#: Width of the strips, and height of one where they are few and where they are many, in pixels.
WIDTH, HIGH, LOW = 420, 34, 22

#: Strips beyond which they are many.
FEW = 20

#: Strips beyond which a figure of models is one of families, and beyond which none is drawn.
MOST = 100

#: Most ticks of a strip.
TICKS = 400

#: Where a density is computed: half a step moves a heap of the least bandwidth by a quarter of
#: that, which hides no more than 3 % of its height.
PLACES = np.linspace(0.0, 1.0, 401)

#: In heights of a strip: how far its density rises above its line, and its sites lie below.
_RISE, _BELOW, _TICK = 0.66, 0.17, 0.22

#: The columns of the shapes that are read.
_SHAPE = ("model", "bimodality_coefficient", "dip_p")

#: Lower parts of a density are not drawn: its line would run through the whole strip.
_SEEN = 0.002


def distribution_rows(
    signatures: pd.DataFrame, shapes: pd.DataFrame | None = None, by: By = "model"
) -> pd.DataFrame:
    """Return the ticks of a figure of distributions, one row a site with a score.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``.
    shapes : pandas.DataFrame, optional
        From ``analysis.relations.score_shapes.shapes``, for the bimodality in labels of models.
    by : {"model", "family"}
        What a strip holds. Of a family random weights (``init:...``) are left out, where others
        were measured.

    Returns
    -------
    pandas.DataFrame
        ``name`` (of the model or family), ``label`` (with n and, where known, the bimodality
        coefficient and the dip's p), ``median`` (over the strip), ``affinity``, ``few_images``
        (whether the site has that flag). Most linear first.
    """
    require_columns(signatures, ("model", "family", "checkpoint", "affinity"))
    if shapes is not None:
        require_columns(shapes, _SHAPE, "shapes(signatures)")
    rows = signatures[signatures["affinity"].notna()].copy()
    learned = trained(rows["checkpoint"])
    if by == "family" and learned.any():
        rows = rows[learned].copy()
    rows["name"] = rows[by].fillna(UNKNOWN)
    grouped = rows.groupby("name")["affinity"]
    rows["median"] = grouped.transform("median")
    counts = grouped.size()
    labels = {name: f"{name} (n = {counts[name]}" for name in counts.index}
    if shapes is not None and by == "model":
        known = shapes.set_index("model")[list(_SHAPE[1:])]
        for name in labels.keys() & set(known.index[known["bimodality_coefficient"].notna()]):
            bimodality, p = known.loc[name]
            labels[name] += f", BC {number(bimodality)}, dip p {number(p)}"
    rows["label"] = rows["name"].map(labels) + ")"
    ordered = rows.sort_values(["median", "name"], ascending=[False, True], kind="stable")
    ordered["few_images"] = few_images(ordered)
    names = ["name", "label", "median", "affinity", "few_images"]
    return ordered[names].reset_index(drop=True)


def density_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the densities of a figure of distributions, one row a strip and score.

    Parameters
    ----------
    rows : pandas.DataFrame
        From ``distribution_rows``.

    Returns
    -------
    pandas.DataFrame
        ``name``, ``affinity`` (401 places in [0, 1]), ``density`` (see
        ``analysis.relations.score_shapes.density``) and ``height`` (over the strip's highest
        density, in [0, 1]). Strips of fewer than four sites have none.
    """
    require_columns(rows, ("name", "affinity"), "distribution_rows(signatures)")
    frames = []
    for name, group in rows.groupby("name", sort=False):
        if len(group) < LEAST_SITES:
            continue
        result = density(group["affinity"], PLACES)
        height = result / result.max()
        frames.append(
            pd.DataFrame({"name": name, "affinity": PLACES, "density": result, "height": height})
        )
    columns = ["name", "affinity", "density", "height"]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)


def distribution_chart(
    signatures: pd.DataFrame,
    shapes: pd.DataFrame | None = None,
    by: By = "model",
) -> Figure:
    """Draw the density of each model's or family's scores, and below it every site as a tick.

    Of more than 400 sites those at evenly spaced ranks have a tick.
    Of more than 100 models a strip holds a family instead. Where no family is known, or there are
    over 100 of those too, the 100 strips with the highest medians are drawn; the subtitle says so.

    Its parameters are those of ``distribution_rows``.
    """
    require_columns(signatures, ("model", "family", "affinity"))
    scored = signatures[signatures["affinity"].notna()]
    models, known = scored["model"].nunique(), scored["family"].nunique()
    by_family = by == "model" and models > MOST >= known > 0
    by = "family" if by_family else by
    rows = distribution_rows(signatures, shapes, by)
    names, left_out = first_of(rows["name"].unique().tolist(), MOST, "the highest medians")
    shown = rows[rows["name"].isin(names)]
    order = list(dict.fromkeys(shown["label"]))
    note = "Shapes: densities, each as high as its strip; ticks: sites; diamonds: medians."
    ticked = _ticked(shown)
    note += " 1 is affine." + hollow_note(ticked)
    if shapes is not None and by == "model":
        note += " BC: Sarle's bimodality coefficient, over 0.56 more than uniform;"
        note += " dip p: Hartigan's test."
    if by_family and not left_out:
        note += f" The {models:,} models are drawn by family."
    if len(ticked) < len(shown):
        note += f" Of more than {TICKS} sites, those at evenly spaced ranks have a tick."
    return figure(
        _strips(shown, ticked, order),
        _medians_finding(rows, by) if shapes is None else shapes_finding(shapes),
        note=note + left_out,
        source=signatures,
        width=int(WIDTH + text_width(order)),
    )


def _strips(rows: pd.DataFrame, ticked: pd.DataFrame, order: Sequence[str]) -> Any:
    """Return strips one below the other: a density on a line, ticks below it."""
    high = HIGH if len(order) <= FEW else LOW
    places = {name: place for place, name in enumerate(dict.fromkeys(rows["name"]))}
    heaps = density_rows(rows)
    heaps = heaps[heaps["height"] > _SEEN].copy()
    heaps["line"] = heaps["name"].map(places).astype("float64")
    heaps["top"] = heaps["line"] - _RISE * heaps["height"].astype("float64")
    sites = ticked.assign(line=ticked["name"].map(places).astype("float64"))
    sites["below"] = sites["line"] + _BELOW
    lines = _lines(order)
    across = affinity_across(sites["affinity"], heaps["affinity"])
    return alt.layer(
        alt.Chart(heaps)
        .mark_area(color=ACCENT, opacity=0.3, line={"color": ACCENT, "strokeWidth": 1})
        .encode(x=across, y=alt.Y("top:Q", **lines), y2="line:Q", detail="name:N"),
        *_ticks(sites, across, alt.Y("below:Q", **lines), _TICK * high),
        alt.Chart(sites.drop_duplicates("name"))
        .mark_point(shape="diamond", filled=True, opacity=1, size=40, color="black")
        .encode(x="median:Q", y=alt.Y("line:Q", **lines)),
    ).properties(width=WIDTH, height=high * max(len(order), 1))  # fmt: skip


def _ticked(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the sites that have a tick."""
    strips = rows.groupby("name", sort=False)["affinity"]
    rank = strips.rank(method="first").to_numpy() - 1
    last = strips.transform("size").to_numpy() - 1
    # The first site of each of as many even steps, and the last one.
    steps = np.maximum(last / (TICKS - 1), 1.0)
    kept = (np.floor(rank / steps) > np.floor((rank - 1) / steps)) | (rank == last)
    return rows.iloc[np.flatnonzero(kept)]


def _ticks(sites: pd.DataFrame, x: alt.X, y: alt.Y, size: float) -> Iterator[Any]:
    """Yield the ticks of sites, and hollow ones of those that have the flag ``few_images``."""
    looks: dict[bool, Any] = {False: {"color": ACCENT, "thickness": 1.4, "opacity": 0.6}}
    looks[True] = {"fill": "white", "stroke": ACCENT, "strokeWidth": 0.8, "thickness": 2.6}
    for flagged, rows in sites.groupby("few_images"):
        ticks = alt.Chart(rows).mark_tick(orient="vertical", size=size, **looks[bool(flagged)])
        yield ticks.encode(x=x, y=y)


def _lines(order: Sequence[str]) -> dict[str, Any]:
    """Return a vertical axis with a label at the whole number of each strip."""
    many = max(len(order), 1)
    axis = alt.Axis(
        values=list(range(len(order))),
        # Made printable here: Vega reads the escapes of JSON again.
        labelExpr=f"{json.dumps([printable(name) for name in order])}[datum.value]",
        labelLimit=420,
        ticks=False,
    )
    scale = alt.Scale(domain=[-_RISE - 0.04, many - _RISE - 0.04], reverse=True, nice=False)
    return {"title": None, "axis": axis, "scale": scale}


def _medians_finding(rows: pd.DataFrame, by: By) -> str:
    """Return the range of the medians as a finding, for strips without a known shape."""
    if rows.empty:
        return "No site has a score"
    medians = rows.drop_duplicates("name").set_index("name")["median"]
    if len(medians) == 1:
        return f"{medians.index[0]}: median affinity {number(medians.iloc[0])} (n = {len(rows)})"
    count = counted(len(medians), by, "families" if by == "family" else "models")
    return range_finding("Median affinity falls", medians, count)
