"""Correlations of the affinity with other metrics as a table of shades (Tables 1 and 2)."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from analysis.choices import Level
from analysis.data.validation import require_columns
from analysis.figures.figure import Figure, figure
from analysis.figures.theme import LABEL_SIZE, names_down, text_width
from analysis.relations.correlation_sentences import correlations_finding
from analysis.statistics.p_values import SIGNIFICANT
from analysis.text import number
from survey.metrics import title_of

#: Size of a cell in pixels.
WIDE, HIGH = 92, 20

#: Colours from -1 to 1: two hues that the colour-blind can tell apart, light between.
DIVERGING = ("#03509F", "#FFFFFF", "#C05A00")


def correlation_rows(correlations: pd.DataFrame, level: Level = "family") -> pd.DataFrame:
    """Return the cells of the table, one row a name and metric.

    Parameters
    ----------
    correlations : pandas.DataFrame
        From ``analysis.relations.metric_correlations.correlations``.
    level : {"family", "model", "all"}
        Whose; the mean over all architectures is added below families.

    Returns
    -------
    pandas.DataFrame
        The columns of ``correlations`` for these rows, ``metric`` by its heading, ``cell`` (the
        coefficient with, for means, the deviation; a dash where it is blank; an asterisk where
        ``p_corrected`` is below 0.05) and ``label`` (the name with n, and with the dataset where
        means are of several).
    """
    require_columns(correlations, ("level", "metric", "pearson"), "correlations(signatures)")
    levels = ("family", "all") if level == "family" else (level,)
    rows = correlations[correlations["level"].isin(levels)].copy()
    rows["metric"] = rows["metric"].map(title_of)
    rows["cell"] = [_cell(row) for row in rows.to_dict("records")]
    counts = rows.groupby(["level", "name", "dataset"])["n"].transform("max")
    noun = "sites" if level == "model" else "architectures"
    shown = rows["name"].where(rows["level"] != "all", "all")
    if level != "model" and rows["dataset"].nunique() > 1:
        shown = shown + " on " + rows["dataset"]
    rows["label"] = shown + " (" + counts.astype("str") + f" {noun})"
    rows["label"] = rows["label"].str.replace(r"\(1 (site|architecture)s\)", r"(1 \1)", regex=True)
    return rows.reset_index(drop=True)


def correlation_chart(correlations: pd.DataFrame, level: Level = "family") -> Figure:
    """Draw the correlations, a row a model or family and a column a metric.

    Its parameters are those of ``correlation_rows``.
    """
    rows = correlation_rows(correlations, level)
    names, metrics = list(dict.fromkeys(rows["label"])), list(dict.fromkeys(rows["metric"]))
    base = alt.Chart(rows).encode(
        x=alt.X(
            "metric:N",
            title=None,
            sort=metrics,
            axis=alt.Axis(orient="top", labelAngle=0, ticks=False, domain=False),
        ),
        y=names_down("label", names, ticks=False, domain=False),
    )
    cells = base.mark_rect(stroke="white").encode(
        color=alt.Color(
            "pearson:Q",
            scale=alt.Scale(domain=[-1, 0, 1], range=list(DIVERGING), interpolate="rgb"),
            legend=alt.Legend(
                title="Pearson", orient="right", gradientLength=min(120, HIGH * len(names))
            ),
        )
    )
    dark = "datum.pearson < -0.6 || datum.pearson > 0.9"
    labels = base.mark_text(fontSize=LABEL_SIZE).encode(
        text="cell:N", color=alt.condition(dark, alt.value("white"), alt.value("black"))
    )
    width = WIDE * max(len(metrics), 1)
    left_out = "" if correlations.attrs.get("untrained") else ", random weights left out"
    means = "" if level == "model" else f" Cells: mean and deviation over architectures{left_out}."
    return figure(
        alt.layer(cells, labels, width=width, height=HIGH * max(len(names), 1)),
        correlations_finding(correlations, level),
        note="Pearson's correlation of the affinity with each metric over the sites of a model."
        f"{means} *: at most {SIGNIFICANT} after Holm's correction.",
        source=correlations,
        width=int(width + text_width(names) + 80),
    )


def _cell(row: dict[Any, Any]) -> str:
    if pd.isna(row["pearson"]):
        return "-"
    spread = "" if pd.isna(row["std"]) else f" ± {number(row['std'])}"
    star = "*" if pd.notna(row["p_corrected"]) and row["p_corrected"] <= SIGNIFICANT else ""
    return f"{number(row['pearson'])}{spread}{star}"
