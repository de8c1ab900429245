"""The row of a run, made from the progress of its job."""

from __future__ import annotations

import dataclasses
import json
import platform
from datetime import UTC, datetime

from catalog.datasets import order_seed_of
from catalog.store.records import RunRecord
from jobs.planning.accuracy_check import suspicion
from jobs.planning.definition import library_version
from jobs.runners.events import Failed
from jobs.scan.job_progress import JobProgress
from survey import MEASURING_VERSION, __version__

_FIELDS = tuple(each.name for each in dataclasses.fields(RunRecord))

#: Libraries whose versions every run records.
_LIBRARIES = ("torch", "torchvision", "numpy", "scipy")


def record_of(progress: JobProgress, status: str, failure: Failed | None = None) -> RunRecord:
    """Return the row of a job's run.

    Parameters
    ----------
    progress : JobProgress
        What is known of it.
    status : {"running", "done", "failed", "cancelled"}
        What became of it.
    failure : Failed, optional
        Why it failed.
    """
    job, state, started = progress.job, progress.state, progress.started
    # A failed run has not seen every image: its accuracy would be over some of them.
    whole = status == "done" and state.images > 0
    # Without a label for every image there is no accuracy.
    labelled = whole and state.images == state.labelled
    top1 = state.top1_hits / state.images if labelled else None
    reported, expected = job.facts.reported, job.expectation
    # Of two parts with a value of one name the later one knows better: how many images were
    # measured, with what micro-batch, in which attempt.
    host = started.host if started else None
    parts = (job.settings, job.facts, job, state, started, host, failure, progress)
    values = {
        name: getattr(part, name) for part in parts for name in _FIELDS if hasattr(part, name)
    }
    values |= {f"{library}_version": library_version(library) for library in _LIBRARIES}
    values |= {
        "job_key": job.key,
        "checkpoint": job.checkpoint.reference,
        "status": status,
        "micro_batch": progress.micro_batch or None,
        "error": failure.message if failure else None,
        "measured_top1": top1,
        "measured_top5": state.top5_hits / state.images if labelled else None,
        "reported_top1": reported.top1 if reported else None,
        "reported_protocol": reported.protocol if reported else None,
        "reported_dataset": reported.dataset if reported else None,
        "expected_top1": expected.top1 if expected else None,
        "expected_source": expected.source if expected else None,
        "suspicion": suspicion(expected, top1, state.images) if whole else None,
        "batches": state.batches_done,
        "reached_precision": progress.spread.standard_error,
        "settings": json.dumps(job.recorded_settings()),
        "transform": json.dumps(dataclasses.asdict(job.transform)),
        "order_seed": order_seed_of(job.dataset),
        "dtype": "float32",
        "parts": max(1, progress.workers),
        "started_at": progress.began,
        "finished_at": None if status == "running" else datetime.now(UTC),
        "python_version": platform.python_version(),
        "survey_version": __version__,
        "measuring_version": MEASURING_VERSION,
    }
    return RunRecord(**values)
