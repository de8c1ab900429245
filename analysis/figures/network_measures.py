"""Measures of whole networks against accuracy, a panel a measure and dataset."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from analysis.choices import Accuracy
from analysis.data.network_measures import by_run
from analysis.data.validation import require_columns
from analysis.figures.figure import Figure, figure, head, side_by_side
from analysis.figures.theme import ACCENT
from analysis.relations.network_measures import measured_runs, measures_finding, points
from analysis.text import chance, number, spaced

#: Panels side by side, and the size of each in pixels.
COLUMNS, WIDTH, HEIGHT = 3, 260, 190


def measure_rows(
    relations: pd.DataFrame,
    signatures: pd.DataFrame,
    models: pd.DataFrame,
    measures: pd.DataFrame,
    accuracy: Accuracy = "measured",
) -> pd.DataFrame:
    """Return the points of the chart, one row an architecture, measure and dataset.

    Parameters
    ----------
    relations : pandas.DataFrame
        From ``analysis.relations.network_measures.measure_correlations``.
    signatures, models, measures : pandas.DataFrame
        What they were made from.
    accuracy : {"measured", "reported"}
        Which top-1 they were made from.

    Returns
    -------
    pandas.DataFrame
        ``dataset``, ``measure``, ``model`` (of several checkpoints, the architecture), ``family``,
        ``value`` (of the measure), ``target`` (``top-1``, or ``mean``, the mean affinity, on a
        dataset where no top-1 is known), ``number`` (its value) and ``conventions`` (what the
        value rests on).
    """
    require_columns(
        relations,
        ("measure", "target", "given"),
        "measure_correlations(signatures, models, measures)",
    )
    runs = measured_runs(signatures, models, measures, accuracy)
    names = [name for name in dict.fromkeys(relations["measure"]) if name in runs]
    labelled = runs["top-1"].notna().groupby(runs["dataset"]).transform("any")
    runs["number"] = runs["top-1"].where(labelled, runs["mean"])
    accurate = set(runs.loc[labelled, "dataset"])
    parts = [
        points(runs, (name, "number")).rename(columns={name: "value"}).assign(measure=name)
        for name in names
    ]
    rows = pd.concat(parts) if parts else points(runs, ["number"]).assign(measure="", value=0)[:0]
    rows["target"] = ["top-1" if each in accurate else "mean" for each in rows["dataset"]]
    rows = rows.join(_conventions(measures), on=["source", "architecture"])
    rows["conventions"] = rows["conventions"].fillna("")
    order = ["dataset", "measure", "model", "family", "value", "target", "number", "conventions"]
    return rows[order].reset_index(drop=True)


def measure_chart(
    relations: pd.DataFrame,
    signatures: pd.DataFrame,
    models: pd.DataFrame,
    measures: pd.DataFrame,
    accuracy: Accuracy = "measured",
) -> Figure:
    """Draw each measure against accuracy, with the correlation plain and given other variables.

    Its parameters are those of ``measure_rows``.
    """
    rows = measure_rows(relations, signatures, models, measures, accuracy)
    panels = [
        _panel(points, relations, *map(str, key))
        for key, points in rows.groupby(["dataset", "measure", "target"], sort=False)
    ]
    wide = max(min(len(panels), COLUMNS) * (WIDTH + 75), 520)
    return figure(
        side_by_side(panels, COLUMNS, "no architecture has a measure and an accuracy"),
        measures_finding(relations),
        note="A point is an architecture, with the mean over its checkpoints. r: over the points,"
        " and of what least-squares fits on depth, width and sparsity leave.",
        source=relations,
        width=wide,
    )


def _panel(
    points: pd.DataFrame, relations: pd.DataFrame, dataset: str, measure: str, target: str
) -> Any:
    wanted = {"dataset": dataset, "measure": measure, "target": target}
    of_it = relations[(relations[list(wanted)] == pd.Series(wanted)).all(axis="columns")]
    lines = [
        f"r {number(row['pearson'])}{' given ' * bool(row['given'])}{row['given']},"
        f" {chance(row['p'])}, n = {row['n']}"
        for row in of_it.to_dict("records")
    ]
    accurate = target == "top-1"
    resting = ["conventions:N"] if points["conventions"].any() else []
    scale = alt.Scale(zero=False, padding=12)
    return (
        alt.Chart(points, title=head(f"{spaced(measure)} on {dataset}", lines))
        .mark_point(filled=True, size=52, opacity=1, color=ACCENT)
        .encode(
            x=alt.X("value:Q", title=spaced(measure), scale=scale, axis=alt.Axis(tickCount=5)),
            y=alt.Y(
                "number:Q", title="top-1 accuracy" if accurate else "mean affinity", scale=scale,
                axis=alt.Axis(format="%" if accurate else "", tickCount=5),
            ),
            tooltip=["model:N", "family:N", "value:Q", "number:Q", *resting],
        )
        .properties(width=WIDTH, height=HEIGHT)
    )  # fmt: skip


def _conventions(measures: pd.DataFrame) -> pd.Series[str]:
    """Return the conventions by architecture: of one run, as weights do not matter to them."""
    return by_run(measures).groupby(["source", "architecture"])["conventions"].first()
