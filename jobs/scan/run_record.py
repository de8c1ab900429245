"""The row of a run, made from the progress of its job."""

from __future__ import annotations

import dataclasses
import json
import platform
from datetime import UTC, datetime

from catalog.datasets import order_seed_of
from catalog.store.records import RunRecord
from jobs.planning.accuracy_check import suspicion
from jobs.planning.versions import library_version
from jobs.runners.events import Failed
from jobs.scan.job_progress import JobProgress
from survey import MEASURING_VERSION, __version__


def record_of(progress: JobProgress, status: str, failure: Failed | None = None) -> RunRecord:
    """Return the row of a job's run.

    Parameters
    ----------
    progress : JobProgress
        What is known of it.
    status : {"running", "done", "failed"}
        What became of it.
    failure : Failed, optional
        Why it failed.
    """
    job, totals, started = progress.job, progress.totals, progress.started
    settings, host = job.settings, started.host if started else None
    ended = status != "running"
    # A failed run has not seen every image: its accuracy would be over some of them.
    whole = status == "done" and totals.images > 0
    top1 = totals.top1 if whole else None
    reported, expected = job.facts.reported, job.expectation
    return RunRecord(
        run_id=job.run_id,
        job_key=job.key,
        attempt=progress.attempt,
        architecture=job.architecture,
        source=job.source,
        family=job.family,
        family_group=job.facts.family_group,
        year=job.facts.year,
        checkpoint=job.checkpoint.reference,
        checkpoint_sha256=job.checkpoint_sha256,
        dataset=job.dataset,
        dataset_fingerprint=job.dataset_fingerprint,
        status=status,
        stage=failure.stage if failure else None,
        error=failure.message if failure else None,
        traceback=failure.traceback if failure else None,
        measured_top1=top1,
        measured_top5=totals.top5 if whole else None,
        reported_top1=reported.top1 if reported else None,
        reported_protocol=reported.protocol if reported else None,
        reported_dataset=reported.dataset if reported else None,
        expected_top1=expected.top1 if expected else None,
        expected_source=expected.source if expected else None,
        suspicion=suspicion(expected, top1, totals.images) if whole else None,
        images=totals.images,
        skipped_images=len(totals.skipped),
        skipped_names=tuple(totals.skipped),
        batches=totals.batches,
        sites=progress.sites,
        precision=settings.precision,
        least_batches=settings.least_batches,
        reached_precision=progress.spread.standard_error,
        depth=job.facts.depth,
        parameters=started.parameters if started else None,
        gflops=started.gflops if started else None,
        settings=json.dumps(job.recorded_settings()),
        images_per_score=settings.images_per_score,
        micro_batch=progress.micro_batch,
        shrinkage=settings.shrinkage,
        ridge=settings.ridge,
        pooling=settings.pooling,
        transform=json.dumps(dataclasses.asdict(job.transform)),
        order_seed=order_seed_of(job.dataset),
        device=host.device if host else None,
        device_name=host.device_name if host else None,
        dtype="float32",
        threads=host.threads if host else None,
        hostname=host.hostname if host else None,
        parts=max(1, progress.workers),
        peak_memory=progress.peak_memory,
        dropped_keys=started.dropped_keys if started else (),
        started_at=progress.began,
        finished_at=datetime.now(UTC) if ended else None,
        seconds=totals.seconds,
        python_version=platform.python_version(),
        torch_version=library_version("torch"),
        torchvision_version=library_version("torchvision"),
        numpy_version=library_version("numpy"),
        scipy_version=library_version("scipy"),
        survey_version=__version__,
        measuring_version=MEASURING_VERSION,
    )
