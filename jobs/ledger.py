"""How far each job of a scan is, kept in step with the stores.

Every method makes its event durable before it returns: rows through the writer, attempts in
the registry. What is derived from many batches, such as accuracy, is summed up here.
"""

from __future__ import annotations

import dataclasses
import json
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

from catalog.datasets.base import ORDER_SEED
from catalog.registry import Outcome, Registry
from catalog.runs import BatchRecord, RunRecord, RunState
from catalog.spool import Writer
from jobs.events import BatchDone, Failed, Finished, Lost, Skipped, Started
from jobs.job import Job, Progress
from jobs.verdict import suspicion
from survey import MEASURING_VERSION, __version__


@dataclass
class _Account:
    """What is known of one job: how far it is, and who is at it."""

    progress: Progress
    #: The last attempt; before the first one begins, the last that wrote rows.
    attempt: int = 0
    sites: int | None = None
    began: datetime | None = None
    started: Started | None = None


class Ledger:
    """The accounts of a scan's jobs.

    Parameters
    ----------
    writer : Writer
        Takes rows.
    registry : Registry
        Takes jobs and attempts.
    """

    def __init__(self, writer: Writer, registry: Registry) -> None:
        self._writer, self._registry = writer, registry
        self._accounts: dict[str, _Account] = {}

    def resume(self, job: Job, state: RunState | None) -> None:
        """Open a job's account from what is durable of it."""
        self._accounts[job.run_id] = (
            _Account(progress_of(state), state.attempt, state.sites)
            if state
            else _Account(Progress())
        )

    def begin(self, job: Job) -> Progress:
        """Open an attempt and return where it goes on."""
        account = self._accounts[job.run_id]
        account.attempt = self._registry.start_attempt(
            job.key, worker="starting", after=account.attempt
        )
        return account.progress

    def started(self, job: Job, event: Started) -> None:
        """Record who measures the job, and with what."""
        account = self._accounts[job.run_id]
        account.started, account.began = event, datetime.now(UTC)
        self._registry.describe_attempt(
            job.key, account.attempt, worker=event.hostname, pid=event.pid
        )
        self._writer.write_run(self._record(job, "running"))

    def batch(self, job: Job, event: BatchDone) -> None:
        """Make a batch durable, then count it."""
        account = self._accounts[job.run_id]
        started = account.started
        record = BatchRecord(
            job.run_id,
            account.attempt,
            event.batch,
            event.end_position,
            names_of(event.skipped),
            micro_batch=job.settings.micro_batch,
            threads=started.threads if started else None,
            device_name=started.device_name if started else None,
            hostname=started.hostname if started else None,
        )
        self._writer.write(batches=[record])
        account.progress = advanced(account.progress, event)
        if account.sites is None and event.batch.scores:
            account.sites = len(event.batch.scores)
            self._writer.write_run(self._record(job, "running"))
        self._writer.merge_if_due()

    def finished(self, job: Job, event: Finished) -> None:
        """Close a job that saw every image."""
        account = self._accounts[job.run_id]
        skipped = account.progress.skipped + names_of(event.skipped)
        account.progress = dataclasses.replace(account.progress, skipped=skipped)
        self._writer.write_run(self._record(job, "done"))
        self._close(job, "done", None)

    def failed(self, job: Job, event: Failed) -> None:
        """Close a job that cannot be done, with its stage and traceback."""
        self._writer.write_run(self._record(job, "failed", event))
        self._close(job, "failed", event)

    def lost(self, job: Job, event: Lost) -> None:
        """Close an attempt whose worker died; the job goes on in another one."""
        self._registry.finish_attempt(
            job.key, self._accounts[job.run_id].attempt, "lost", error=event.message
        )

    def _close(self, job: Job, outcome: Outcome, event: Failed | None) -> None:
        account = self._accounts[job.run_id]
        self._registry.finish_attempt(
            job.key,
            account.attempt,
            outcome,
            stage=event.stage if event else None,
            error=event.message if event else None,
            traceback=event.traceback if event else None,
            images_done=account.progress.images,
        )
        self._writer.merge_if_due()

    def _record(self, job: Job, status: str, failure: Failed | None = None) -> RunRecord:
        account = self._accounts[job.run_id]
        progress, started, settings = account.progress, account.started, job.settings
        ended = status != "running"
        # A failed run has not seen every image: its accuracy would be over some of them.
        whole = status == "done" and progress.images > 0
        labelled = whole and progress.labelled == progress.images
        top1 = progress.top1_hits / progress.images if labelled else None
        reported, expected = job.facts.reported, job.expectation
        return RunRecord(
            run_id=job.run_id,
            job_key=job.key,
            attempt=account.attempt,
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
            measured_top5=progress.top5_hits / progress.images if labelled else None,
            reported_top1=reported.top1 if reported else None,
            reported_protocol=reported.protocol if reported else None,
            reported_dataset=reported.dataset if reported else None,
            expected_top1=expected.top1 if expected else None,
            expected_source=expected.source if expected else None,
            suspicion=suspicion(expected, top1, progress.images) if whole else None,
            images=progress.images,
            skipped_images=len(progress.skipped),
            skipped_names=progress.skipped,
            batches=progress.batches,
            sites=account.sites,
            depth=job.facts.depth,
            parameters=started.parameters if started else None,
            gflops=started.gflops if started else None,
            settings=json.dumps(settings.to_dict()),
            images_per_score=settings.images_per_score,
            micro_batch=settings.micro_batch,
            shrinkage=settings.shrinkage,
            ridge=settings.ridge,
            pooling=settings.pooling,
            transform=json.dumps(dataclasses.asdict(job.transform)),
            order_seed=ORDER_SEED,
            device=started.device if started else None,
            device_name=started.device_name if started else None,
            dtype="float32",
            threads=started.threads if started else None,
            hostname=started.hostname if started else None,
            python_version=platform.python_version(),
            torch_version=version("torch"),
            torchvision_version=version("torchvision"),
            numpy_version=version("numpy"),
            scipy_version=version("scipy"),
            survey_version=__version__,
            measuring_version=MEASURING_VERSION,
            dropped_keys=started.dropped_keys if started else (),
            started_at=account.began,
            finished_at=datetime.now(UTC) if ended else None,
            seconds=progress.seconds,
        )


def progress_of(state: RunState | None) -> Progress:
    """Return where a job goes on, given what is durable of it."""
    if state is None or len(state.done) != 1 or state.done[0].first != 0:
        # With a gap among its batches a run is measured again from the first one.
        return Progress()
    return Progress(
        batches=state.batches_done,
        position=state.done[0].position,
        images=state.images,
        labelled=state.labelled,
        top1_hits=state.top1_hits,
        top5_hits=state.top5_hits,
        skipped=state.skipped_names,
        seconds=state.seconds,
    )


def advanced(progress: Progress, event: BatchDone) -> Progress:
    """Return how far a job is after one more durable batch."""
    batch = event.batch
    return Progress(
        batches=batch.batch + 1,
        position=event.end_position,
        images=progress.images + batch.images,
        labelled=progress.labelled + batch.labelled,
        top1_hits=progress.top1_hits + batch.top1_hits,
        top5_hits=progress.top5_hits + batch.top5_hits,
        skipped=progress.skipped + names_of(event.skipped),
        seconds=progress.seconds + batch.seconds,
    )


def names_of(skipped: tuple[Skipped, ...]) -> tuple[str, ...]:
    """Return the names of images that were left out."""
    return tuple(image.name for image in skipped)
