"""Datasets: distances of signatures from those on a reference dataset (Fig. 15)."""

from __future__ import annotations

import altair as alt
import pandas as pd

from analysis.contrasts.datasets import Measure, dataset_summary, datasets_finding
from analysis.data.validation import require_columns
from analysis.figures.figure import Figure, figure, first_of
from analysis.figures.theme import marks_by, names_down, text_width
from analysis.text import number

#: Width of the drawing, and height of a model, in pixels.
WIDTH, ROW = 400, 18

#: Most rows.
MOST = 100

_TITLES = {"dtw": "DTW", "euclidean": "Euclidean"}


def dataset_rows(deviations: pd.DataFrame, measure: Measure = "dtw") -> pd.DataFrame:
    """Return the marks of a figure of datasets, one row a model and dataset with a deviation.

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


def dataset_chart(deviations: pd.DataFrame, measure: Measure = "dtw") -> Figure:
    """Draw each model's distance from its signature on the reference dataset.

    Of more than 100 models those are drawn that move most. Its parameters are those of
    ``dataset_rows``.
    """
    rows = dataset_rows(deviations, measure)
    models, left_out = first_of(list(dict.fromkeys(rows["model"])), MOST, "which move most")
    rows = rows[rows["model"].isin(models)]
    names = sorted(rows["label"].unique())
    points = (
        alt.Chart(rows)
        .mark_point(filled=True, opacity=1, size=50)
        .encode(
            x=alt.X("distance:Q", title=f"{_TITLES[measure]} distance", scale=alt.Scale(zero=True)),
            y=names_down("model", models, grid=True),
            **marks_by("label", names, WIDTH + 120, "dataset"),
        )
    )
    return figure(
        points.properties(width=WIDTH, height=ROW * max(len(models), 1)),
        datasets_finding(deviations, measure),
        note="Distance between a model's signatures on the dataset and on the reference."
        + left_out,
        source=deviations,
        width=int(max(WIDTH + text_width(models), 480)),
    )
