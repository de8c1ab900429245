"""How every job of a home stands, from the stores alone: any process may ask."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pyarrow as pa

from catalog.home import Home
from catalog.registry import Registry
from catalog.spool import writing_process
from catalog.store import run_states


@dataclass(frozen=True, slots=True)
class Standing:
    """A table with one row a job, and one line that sums it up."""

    table: pa.Table
    summary: str


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
    """Return how every job stands.

    A job that the registry calls running while no scan is writing was interrupted.
    """
    writer = writing_process(home)
    states, registry = run_states(home), Registry(home)
    attempts = registry.last_attempts()
    rows = []
    for job in registry.jobs():
        state, last = states.get(job.run_id), attempts.get(job.key)
        word: str = job.state if writer or job.state != "running" else "interrupted"
        if state is not None and state.status == "done":
            # Rows come before the registry: a scan killed in between has done the job all the same.
            word = "suspect" if state.suspicion else "done"
        rows.append(
            {
                "run_id": job.run_id,
                "architecture": f"{job.source}:{job.architecture}",
                "checkpoint": job.checkpoint,
                "dataset": job.dataset,
                "state": word,
                "batches": state.batches_done if state else 0,
                "images": state.images if state else 0,
                "attempts": last.attempt if last else 0,
                "top1": state.measured_top1 if state else None,
                "suspicion": state.suspicion if state else None,
                "error": last.error if last and word == "failed" else None,
            }
        )
    counted = Counter(row["state"] for row in rows)
    words = ", ".join(f"{number} {word}" for word, number in counted.items()) or "no jobs"
    doing = f"a scan is writing ({writer})" if writer else "no scan is writing"
    rows.sort(key=lambda row: (row["architecture"], row["checkpoint"], row["dataset"]))
    return Standing(pa.Table.from_pylist(rows, COLUMNS), f"{words}; {doing}")
