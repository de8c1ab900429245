"""The page of a comparison: a few runs on one axis and the alignment of two, by a metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pandas as pd

from analysis.data.provenance import narrowed
from analysis.figures.overlay import (
    MOST_MODELS,
    alignment_chart,
    alignment_rows,
    overlay_chart,
    overlay_rows,
)
from analysis.report.data import ReportMaterial, statement
from analysis.report.elements import Exhibit, Link, Page
from analysis.report.model_page import SITE_COLUMNS
from survey.errors import SettingsError, UnknownName
from survey.metrics import listed_quantities
from survey.text import counted

#: Models that are compared at once.
LEAST_COMPARED, MOST_COMPARED = 2, MOST_MODELS


def comparison_page(
    material: ReportMaterial, here: Link, runs: Sequence[str], metric: str = "affinity"
) -> Page:
    """Return the page of a comparison.

    Parameters
    ----------
    material : ReportMaterial
        The frames with these runs.
    here : Link
        The page.
    runs : sequence of str
        Two to twelve run ids.
    metric : str
        A metric by its name.

    Raises
    ------
    UnknownName
        If there is no such run or metric.
    SettingsError
        If there are too few or too many runs, or one has no score.
    """
    every = material.every_signature
    known = list(dict.fromkeys(every["run_id"]))
    for run in runs:
        if run not in known:
            if run in set(material.models["run_id"]):
                raise SettingsError(f"run {run} has no score", hint="compare others")
            raise UnknownName("run", run, known)
    if not LEAST_COMPARED <= len(runs) <= MOST_COMPARED:
        raise SettingsError(
            f"{counted(len(runs), 'model')} chosen, allowed are"
            f" {LEAST_COMPARED} to {MOST_COMPARED}",
            hint="tick some in the list of models",
        )
    rows = narrowed(every[every["run_id"].isin(runs)], f"{len(runs)} models")
    metrics = [each for each in listed_quantities() if each.name in rows]
    if metric not in (names := [each.name for each in metrics]):
        raise UnknownName("metric", metric, names)
    values = {"runs": runs, "lead": _medians(rows), "metrics": metrics, "metric": metric}
    return Page(here, "comparison.html", values, tuple(_exhibits(rows, metric)))


def _exhibits(rows: pd.DataFrame, metric: str) -> Iterator[Exhibit]:
    ids = list(dict.fromkeys(rows["run_id"]))
    sql = statement(ids, tuple(dict.fromkeys((*SITE_COLUMNS, metric))))
    chart = partial(overlay_chart, rows, metric)
    yield Exhibit(metric, chart, partial(overlay_rows, rows, metric), sql)
    if len(ids) == LEAST_COMPARED:
        chart = partial(alignment_chart, rows, metric)
        yield Exhibit("alignment", chart, partial(alignment_rows, rows, metric), sql)


def _medians(rows: pd.DataFrame) -> str:
    medians = rows.groupby("model")["affinity"].median().sort_values()
    listed = ", ".join(f"{model} {median:.3f}" for model, median in medians.items())
    return f"{len(medians)} models, by the median of their affinity scores: {listed}"
