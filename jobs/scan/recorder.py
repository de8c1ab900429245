"""The recorder: makes worker events durable before they are reported.

Rows are written first, then attempts in the registry, each in one go for all events that arrived
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from catalog.registry.attempts import AttemptEnd, AttemptWorker
from catalog.registry.registry import Registry
from catalog.registry.rows import AttemptOutcome, JobState
from catalog.store.records import BatchRecord, NetworkRecord, RunRecord
from catalog.store.writer import Writer
from jobs.planning.job import Job
from jobs.runners.events import (
    Event,
    Failed,
    Finished,
    Halved,
    Lost,
    Measuring,
    Returned,
    Started,
)
from jobs.scan.job_log import append, described
from jobs.scan.job_progress import JobProgress
from jobs.scan.run_record import record_of
from survey.network_measures import MEASURES
from survey.text import counted, storable


class Recorder:
    """Keeps the progress of a scan's jobs in step with the stores.

    Parameters
    ----------
    jobs : mapping of str to JobProgress
        The progress of each job, by run id.
    writer : Writer
        Stores rows.
    registry : Registry
        Stores jobs and attempts.
    logs : pathlib.Path
        The folder of the jobs' logs.
    most_losses : int
        Workers a job may lose in a row before it is parked.
    """

    def __init__(
        self,
        jobs: Mapping[str, JobProgress],
        writer: Writer,
        registry: Registry,
        logs: Path,
        most_losses: int,
    ) -> None:
        self._jobs, self._writer, self._registry, self._logs = jobs, writer, registry, logs
        self._most_losses = most_losses
        self._pending = _Pending()

    def record(self, events: Iterable[Event]) -> list[Event]:
        """Persist worker events, then return the ones to report.

        Events of attempts that were given up are ignored. The end of a shard that is not the last
        one of its job is not reported, nor are measures of its network. One loss too many becomes a
        failure.
        """
        reported = []
        for event in events:
            progress = self._jobs[event.run_id]
            if event.attempt not in progress.running:
                continue
            if isinstance(event, Lost):
                event = self._counted(progress, event)  # noqa: PLW2901 - a loss may be a failure
            losses = progress.losses
            self._note(progress, event)
            if progress.losses < losses:
                # Not only with the attempt's end, which an interruption or a kill leaves out.
                self._pending.recover(progress.job.key)
            if not isinstance(event, Measuring):
                append(self._logs, event.run_id, described(event))
            if progress.closed or not isinstance(event, (Finished, NetworkRecord)):
                reported.append(event)
        self._persist()
        return reported

    def withdraw(self, job: Job) -> None:
        """End a cancelled job: ignore its further events."""
        progress = self._jobs[job.run_id]
        for attempt in progress.close():
            self._end(progress, attempt, "interrupted", "cancelled", error="cancelled")
        if progress.started is not None and not progress.complete:
            self._pending.runs[job.run_id] = record_of(progress, "cancelled")
        self._persist()
        append(self._logs, job.run_id, "cancelled")

    def _counted(self, progress: JobProgress, event: Lost) -> Lost | Failed:
        """Count a loss and return it, as a failure if it is one too many.

        A measure that lost as many workers is without a value, and the job goes on.
        """
        if name := progress.measuring(event.attempt):
            if progress.lose_in(name, self._most_losses):
                measure = next(each for each in MEASURES if each.name == name)
                count = progress.measure_losses[name]
                reason = f"{counted(count, 'worker')} were lost in it, the last: {event.message}"
                scores = measure.without_value(storable(reason))
                record = NetworkRecord(event.run_id, event.attempt, scores)
                self._note(progress, record)
                append(self._logs, event.run_id, described(record))
            return event
        if event.attempt not in progress.progressed:
            progress.losses += 1
        if event.of_memory:
            progress.halve(max(1, progress.micro_batch // 2))
        if progress.losses < self._most_losses:
            return event
        message = f"{event.message} ({progress.losses} workers lost in a row; parked)"
        hint = "survey log shows its history, survey retry tries again; a smaller --micro-batch"
        return Failed(event.run_id, event.attempt, "worker", message, f"{hint} needs less", "")

    def _note(self, progress: JobProgress, event: Event) -> None:
        pending, job = self._pending, progress.job
        if isinstance(event, Started):
            self._start(progress, event)
        elif isinstance(event, NetworkRecord):
            pending.network.append(event)
            progress.add_network(event)
        elif isinstance(event, BatchRecord):
            pending.batches.append(event)
            progress.add_batch(event)
        elif isinstance(event, Halved) and event.measure is None:
            self._registry.remember_micro_batch(
                job.full_name, event.device_name, job.transform.size, event.micro_batch
            )
            progress.halve(event.micro_batch)
        elif isinstance(event, Finished):
            progress.finish(event)
            if progress.closed and not progress.complete:
                pending.runs[event.run_id] = record_of(progress, "done")
            self._end(progress, event.attempt, "done", "done" if progress.closed else "running")
        elif isinstance(event, Failed):
            self._fail(progress, event)
        elif isinstance(event, (Lost, Returned)):
            progress.give_back(event.attempt)
            leaves: JobState = "running" if progress.running else "todo"
            if isinstance(event, Lost):
                self._end(progress, event.attempt, "lost", leaves, error=event.message)
            else:
                self._end(progress, event.attempt, "interrupted", leaves, error="never begun")

    def _start(self, progress: JobProgress, event: Started) -> None:
        first = progress.started is None
        progress.start(event)
        host, key = event.host, progress.job.key
        self._pending.workers.append(AttemptWorker(key, event.attempt, host.hostname, host.pid))
        if first and not progress.complete:
            self._pending.runs[event.run_id] = record_of(progress, "running")

    def _fail(self, progress: JobProgress, event: Failed) -> None:
        leaves: JobState = "parked" if progress.losses >= self._most_losses else "failed"
        if progress.complete:
            # The run stays as it is, and what it lacks is planned again with the next scan.
            leaves, progress.losses = "done", 0
        why = {"stage": event.stage, "error": event.message, "traceback": event.traceback}
        for attempt in progress.close():
            outcome: AttemptOutcome = "failed" if attempt == event.attempt else "interrupted"
            self._end(progress, attempt, outcome, leaves, **why)
        if not progress.complete:
            self._pending.runs[event.run_id] = record_of(progress, "failed", event)

    def _end(
        self,
        progress: JobProgress,
        attempt: int,
        outcome: AttemptOutcome,
        leaves: JobState,
        **why: str,
    ) -> None:
        key, images, losses = progress.job.key, progress.state.images, progress.losses
        self._pending.ends.append(AttemptEnd(key, attempt, outcome, leaves, images, losses, **why))

    def _persist(self) -> None:
        pending, self._pending = self._pending, _Pending()
        self._writer.write(list(pending.runs.values()), pending.batches, pending.network)
        if pending.workers:
            self._registry.attempts.describe(pending.workers)
        if pending.recovered:
            self._registry.attempts.forget_losses(pending.recovered)
        if pending.ends:
            self._registry.attempts.finish(pending.ends)
        self._writer.merge_if_due()


@dataclass
class _Pending:
    """Rows to be written at once."""

    runs: dict[str, RunRecord] = field(default_factory=dict)
    batches: list[BatchRecord] = field(default_factory=list)
    network: list[NetworkRecord] = field(default_factory=list)
    workers: list[AttemptWorker] = field(default_factory=list)
    #: Keys of jobs whose lost workers count no more.
    recovered: set[str] = field(default_factory=set)
    ends: list[AttemptEnd] = field(default_factory=list)

    def recover(self, job_key: str) -> None:
        """Count the workers that a job lost so far no more, those of ends before it neither."""
        self.recovered.add(job_key)
        ends = self.ends
        self.ends = [replace(e, losses=0) if e.job_key == job_key else e for e in ends]
