"""The runs of an architecture: their signatures by checkpoint and dataset, and a table of them."""

from __future__ import annotations

from functools import partial
from typing import Any

from analysis.answers.base import CURVE
from analysis.answers.columns import Table, TableColumn
from analysis.data.provenance import narrowed
from analysis.figures.overlay import MOST_MODELS, overlay_chart, overlay_rows
from analysis.report.data import ReportMaterial, statement
from analysis.report.elements import Exhibit, PageTable, page_table
from analysis.text import fixed, percent

_COLUMNS: tuple[str | TableColumn, ...] = (
    "model",
    TableColumn("checkpoint_name", "checkpoint"),
    TableColumn("dataset_name", "dataset"),
    "images_per_score",
    "status",
    TableColumn("measured_top1", "top-1", percent),
    TableColumn("lowest", form=fixed(4)),
    TableColumn("median", form=fixed(4)),
    TableColumn("highest", form=fixed(4)),
    TableColumn("finished_at", "finished (UTC)"),
)


def architecture_table(material: ReportMaterial) -> PageTable:
    """Return a row a run, the newest first."""
    scores = material.every_signature.groupby("run_id")["affinity"]
    result = scores.agg(lowest="min", median="median", highest="max")
    rows = material.models.merge(result, on="run_id", how="left")
    rows = rows.sort_values("finished_at", ascending=False, na_position="first")
    caption = "Runs of this architecture, the newest first."
    return page_table(Table("runs", caption, rows, _COLUMNS), material.links)


def architecture_exhibits(material: ReportMaterial, run: dict[Any, Any]) -> tuple[Exhibit, ...]:
    """Return the figure of the newest signature of each checkpoint and dataset, and of this run.

    There is none where only one run has scores. Of many, the newest are shown.
    """
    scored = material.done[material.done["run_id"].isin(material.scored)]
    newest = scored.sort_values("finished_at", ascending=False)
    ids = newest.drop_duplicates(["checkpoint", "dataset", "pooling"])["run_id"]
    shown = [*([run["run_id"]] if run["run_id"] in material.scored else []), *ids]
    shown = list(dict.fromkeys(shown))[:MOST_MODELS]
    if len(shown) < 2:
        return ()
    every = material.every_signature
    rows = narrowed(every[every["run_id"].isin(shown)], "by checkpoint and dataset")
    sql = statement(shown, CURVE)
    return (Exhibit("checkpoints", partial(overlay_chart, rows), partial(overlay_rows, rows), sql),)
