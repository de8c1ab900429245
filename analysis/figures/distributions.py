"""Distributions of affinity scores, a strip a model or a family (Fig. 5C)."""

from __future__ import annotations

from typing import Literal

import altair as alt
import pandas as pd

from analysis.figures.theme import (
    ACCENT,
    AFFINITY_ACROSS,
    UNKNOWN,
    Figure,
    figure,
    names_down,
    text_width,
)
from analysis.figures.words import number
from analysis.provenance import Provenance
from analysis.shapes import UNIFORM
from survey.words import counted

By = Literal["model", "family"]

#: Width of the strips, and height of one, in pixels.
WIDTH, STRIP = 420, 17


def distribution_rows(
    signatures: pd.DataFrame, shapes: pd.DataFrame | None = None, by: By = "model"
) -> pd.DataFrame:
    """Return what a figure of distributions shows, one row a site with a score.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``.
    shapes : pandas.DataFrame, optional
        From ``analysis.shapes.shapes``, for the bimodality in labels of models.
    by : {"model", "family"}
        What a strip holds.

    Returns
    -------
    pandas.DataFrame
        ``name`` (of the model or family), ``label`` (with n and, where known, the bimodality
        coefficient and the dip's p), ``median`` (over the strip), ``affinity``. Most linear first.
    """
    rows = signatures[signatures["affinity"].notna()].copy()
    rows["name"] = rows[by].fillna(UNKNOWN)
    grouped = rows.groupby("name")["affinity"]
    rows["median"] = grouped.transform("median")
    counts = grouped.size()
    labels = {name: f"{name} (n = {counts[name]}" for name in counts.index}
    if shapes is not None and by == "model":
        known = shapes.set_index("model")[["bimodality_coefficient", "dip_p"]]
        for name in labels.keys() & set(known.index[known["bimodality_coefficient"].notna()]):
            bimodality, p = known.loc[name]
            labels[name] += f", BC {number(bimodality)}, dip p {number(p)}"
    rows["label"] = rows["name"].map(labels) + ")"
    ordered = rows.sort_values(["median", "name"], ascending=[False, True], kind="stable")
    return ordered[["name", "label", "median", "affinity"]].reset_index(drop=True)


def distribution_chart(
    signatures: pd.DataFrame,
    shapes: pd.DataFrame | None = None,
    by: By = "model",
    provenance: Provenance | None = None,
) -> Figure:
    """Draw the scores of each model's or family's sites as a strip of ticks.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``.
    shapes : pandas.DataFrame, optional
        From ``analysis.shapes.shapes``, for the bimodality in labels of models.
    by : {"model", "family"}
        What a strip holds.
    provenance : Provenance, optional
        The caption's facts, where the frame does not carry them.
    """
    rows = distribution_rows(signatures, shapes, by)
    order = list(dict.fromkeys(rows["label"]))
    base = alt.Chart(rows).encode(y=names_down("label", order, grid=True))
    ticks = base.mark_tick(opacity=0.5, thickness=1.6, size=11, color=ACCENT).encode(
        x=AFFINITY_ACROSS
    )
    medians = (
        alt.Chart(rows.drop_duplicates("label"))
        .mark_point(shape="diamond", filled=True, opacity=1, size=46, color="black")
        .encode(x="median:Q", y=alt.Y("label:N", sort=order))
    )
    labelled = shapes is not None and by == "model"
    bimodality = (
        " BC: Sarle's bimodality coefficient, over 0.56 more than uniform; dip p: Hartigan's test."
    )
    return figure(
        alt.layer(ticks, medians).properties(width=WIDTH, height=STRIP * max(len(order), 1)),
        _finding(rows, shapes if by == "model" else None, by),
        note="A line a site, a diamond at the median. 1 is affine."
        + (bimodality if labelled else ""),
        source=signatures,
        provenance=provenance,
        width=int(WIDTH + text_width(order)),
    )


def _finding(rows: pd.DataFrame, shapes: pd.DataFrame | None, by: By) -> str:
    if rows.empty:
        return "No site has a score"
    medians = rows.drop_duplicates("name").set_index("name")["median"]
    nouns = "families" if by == "family" else "models"
    count = counted(len(medians), by, nouns)
    if shapes is not None and shapes["bimodality_coefficient"].notna().any():
        known = shapes[shapes["bimodality_coefficient"].notna()]
        heaps = int((known["bimodality_coefficient"] > UNIFORM).sum())
        significant = int((known["dip_p"] <= 0.05).sum())
        return (
            f"{heaps} of {counted(len(known), 'model')} exceed a uniform distribution's"
            f" bimodality; in {significant} the dip test sees two heaps (p at most 0.05,"
            " uncorrected)"
        )
    if len(medians) == 1:
        return f"{medians.index[0]}: median affinity {number(medians.iloc[0])} (n = {len(rows)})"
    return (
        f"Median affinity falls from {number(medians.iloc[0])} ({medians.index[0]}) to"
        f" {number(medians.iloc[-1])} ({medians.index[-1]}) over {count}"
    )
