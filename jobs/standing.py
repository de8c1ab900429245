"""How every job of a home stands, from the stores alone: any process may ask."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pyarrow as pa

from catalog.home import Home
from catalog.queries import run_progress
from catalog.registry import JobOverview, Registry
from catalog.spool import writing_process


@dataclass(frozen=True, slots=True)
class Standing:
    """One row a job with the columns of ``COLUMNS``, and one line that sums them up."""

    rows: list[dict[str, Any]]
    summary: str


#: States in the order in which a reader wants to see them: what goes on, what went wrong, the rest.
URGENCY = (
    *("running", "interrupted", "failed", "parked", "suspect"),
    *("todo", "cancelled", "done"),
)

#: Columns of the table, so that a home without jobs shows them too.
COLUMNS = pa.schema(
    [
        ("run_id", pa.string()),
        ("architecture", pa.string()),
        ("checkpoint", pa.string()),
        ("dataset", pa.string()),
        ("state", pa.string()),
        ("batches", pa.int64()),
        ("images", pa.int64()),
        ("attempts", pa.int64()),
        ("top1", pa.float64()),
        ("suspicion", pa.string()),
        ("error", pa.string()),
    ]
)


def standing(home: Home) -> Standing:
    """Return how every job stands, those that go on or went wrong first.

    A job that the registry calls running while no scan is writing was interrupted.
    """
    writer = writing_process(home)
    reached = {row["run_id"]: row for row in run_progress(home).to_pylist()}
    with Registry(home) as registry:
        rows = [_row(job, reached.get(job.run_id), writer) for job in registry.overview()]
    counted = Counter(row["state"] for row in rows)
    words = ", ".join(f"{number} {word}" for word, number in counted.items()) or "no jobs"
    doing = f"a scan is writing ({writer})" if writer else "no scan is writing"
    urgency = {word: place for place, word in enumerate(URGENCY)}
    names = itemgetter("architecture", "checkpoint", "dataset")
    rows.sort(key=lambda row: (urgency[row["state"]], names(row)))
    return Standing(rows, f"{words}; {doing}")


def _row(job: JobOverview, run: dict[str, Any] | None, writer: str | None) -> dict[str, Any]:
    word: str = job.state if writer or job.state != "running" else "interrupted"
    if run is not None and run["status"] == "done":
        # Rows come before the registry: a scan killed in between has done the job all the same.
        word = "suspect" if run["suspicion"] else "done"
    return {
        "run_id": job.run_id,
        "architecture": f"{job.source}:{job.architecture}",
        "checkpoint": job.checkpoint,
        "dataset": job.dataset,
        "state": word,
        "batches": run["batches"] if run else 0,
        "images": run["images"] if run else 0,
        "attempts": job.attempt or 0,
        "top1": run["measured_top1"] if run else None,
        "suspicion": run["suspicion"] if run else None,
        "error": job.error if word in ("failed", "parked") else None,
    }
