"""Datasets: how far signatures move on other images, a mark a model (Fig. 15)."""

from __future__ import annotations

from typing import Literal

import altair as alt
import pandas as pd

from analysis.contrasts.datasets import dataset_summary
from analysis.data.provenance import Provenance
from analysis.data.validation import require_columns
from analysis.figures.text import number
from analysis.figures.theme import Figure, figure, names_down, text_width, told_apart
from survey.text import counted

Measure = Literal["dtw", "euclidean"]

#: Width of the drawing, and height of a model, in pixels.
WIDTH, ROW = 400, 18

_WORDS = {"dtw": "DTW", "euclidean": "Euclidean"}


def dataset_rows(deviations: pd.DataFrame, measure: Measure = "dtw") -> pd.DataFrame:
    """Return what a figure of datasets shows, one row a model and dataset with a deviation.

    Parameters
    ----------
    deviations : pandas.DataFrame
        From ``analysis.contrasts.datasets.dataset_deviations``.
    measure : {"dtw", "euclidean"}
        Which distance.

    Returns
    -------
    pandas.DataFrame
        ``model``, ``family``, ``dataset``, ``reference``, ``distance`` (in units of affinity),
        ``label`` (the dataset with mean, deviation and n over its models). Models that move most
        come first.
    """
    needed = ("model", "dataset", "reference", measure)
    require_columns(deviations, needed, "dataset_deviations(signatures)")
    rows = deviations[deviations[measure].notna()].rename(columns={measure: "distance"})
    summary = dataset_summary(deviations).set_index("dataset")
    n = {"dtw": "n", "euclidean": "n_euclidean"}[measure]
    labels = {
        name: f"{name}: {number(row[measure])} ± {number(row[f'{measure}_std'])} (n = {row[n]})"
        for name, row in summary.iterrows()
    }
    # On a dataset that only random weights were measured on there is no mean.
    rows["label"] = rows["dataset"].map(labels).fillna(rows["dataset"])
    rows["most"] = rows.groupby("model")["distance"].transform("max")
    ordered = rows.sort_values(["most", "model", "dataset"], ascending=[False, True, True])
    names = ["model", "family", "dataset", "reference", "distance", "label"]
    return ordered[names].reset_index(drop=True)


def dataset_chart(
    deviations: pd.DataFrame, measure: Measure = "dtw", provenance: Provenance | None = None
) -> Figure:
    """Draw each model's distance from its signature on the reference dataset.

    Parameters
    ----------
    deviations : pandas.DataFrame
        From ``analysis.contrasts.datasets.dataset_deviations``.
    measure : {"dtw", "euclidean"}
        Which distance.
    provenance : Provenance, optional
        The caption's facts, where the frame does not carry them.
    """
    rows = dataset_rows(deviations, measure)
    names, models = sorted(rows["label"].unique()), list(dict.fromkeys(rows["model"]))
    points = (
        alt.Chart(rows)
        .mark_point(filled=True, opacity=1, size=50)
        .encode(
            x=alt.X("distance:Q", title=f"{_WORDS[measure]} distance", scale=alt.Scale(zero=True)),
            y=names_down("model", models, grid=True),
            **told_apart("label", names, WIDTH + 120, "dataset"),
        )
    )
    return figure(
        points.properties(width=WIDTH, height=ROW * max(len(models), 1)),
        _finding(rows),
        note="Distance between a model's signatures on the dataset and on the reference.",
        source=deviations,
        provenance=provenance,
        width=int(max(WIDTH + text_width(models), 480)),
    )


def _finding(rows: pd.DataFrame) -> str:
    if rows.empty:
        return "No model was measured on two datasets"
    reference = rows["reference"].iloc[0]
    means = rows.groupby("dataset")["distance"].mean().sort_values()
    count = counted(rows["model"].nunique(), "model")
    if len(means) == 1:
        return f"{means.index[0]} is {number(means.iloc[0])} away from {reference} ({count})"
    return (
        f"From {reference}, signatures move least on {means.index[0]} ({number(means.iloc[0])})"
        f" and most on {means.index[-1]} ({number(means.iloc[-1])}; means over {count})"
    )
