"""The dispatcher: which jobs of a scan wait, which worker gets which, and how each ended."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from catalog.registry.attempts import AttemptStart
from catalog.registry.registry import Registry
from jobs.planning.estimate import Estimate
from jobs.planning.job import Job
from jobs.planning.worker_layout import Devices
from jobs.runners.events import Event, Failed, Finished, Halved, Host, Lost, Returned, Started
from jobs.runners.options import Limits
from jobs.runners.task import Task
from jobs.scan.job_progress import JobProgress
from jobs.scan.recorder import Recorder
from jobs.scan.shards import shard_count, split

#: A worker gets several jobs at once while each is expected to take less than this, in seconds,
#: and all together no more than that, and at most so many of them.
SHORT_SECONDS, TOGETHER_SECONDS, TOGETHER = 1.0, 10.0, 32

#: Seconds between two looks into the registry for cancelled jobs.
CANCEL_SECONDS = 2.0


class Dispatcher:
    """Gives the jobs of a scan to its workers; the ``TaskSource`` of the runner.

    Parameters
    ----------
    jobs : mapping of str to JobProgress
        The jobs that are to be measured, by run id, in the order they are given out.
    estimates : mapping of str to Estimate
        Expected seconds of each, by run id; those of jobs that are planned anew are added later.
    recorder : Recorder
        Persists worker events.
    registry : Registry
        Knows which jobs were cancelled, and which micro-batches did not fit into memory before.
    devices : Devices
        The workers.
    limits : Limits
        What jobs are allowed.
    planned_anew : callable, optional
        Gives the progress of a job with the weights that its file has by now; None where those
        are the planned ones.
    withdrawn : callable, optional
        Called with each job that was cancelled.
    """

    def __init__(
        self,
        jobs: dict[str, JobProgress],
        estimates: Mapping[str, Estimate],
        recorder: Recorder,
        registry: Registry,
        devices: Devices,
        limits: Limits,
        planned_anew: Callable[[Job], JobProgress | None] = lambda _: None,
        withdrawn: Callable[[Job], None] = lambda _: None,
    ) -> None:
        #: Jobs whose weights changed before they were loaded, with what is measured instead.
        self.replaced: dict[str, Job] = {}
        self.done: list[Job] = []
        self.failed: list[tuple[Job, Failed]] = []
        self.cancelled: list[Job] = []
        self._recorder, self._registry, self._deadline = recorder, registry, limits.deadline
        self._estimates, self._workers = estimates, devices.workers
        self._planned_anew, self._withdrawn = planned_anew, withdrawn
        self._fitting = registry.micro_batches()
        self._speed = _Speed()
        self._alone: set[str] = set()
        self._asked = time.monotonic()
        self._jobs = jobs
        # One worker computes all measures of a network: scores alone can be shared out.
        total = sum(estimates[run_id].score_seconds for run_id in jobs)
        for run_id, progress in jobs.items():
            if limits.split and progress.job.settings.precision is None:
                seconds = estimates[run_id].score_seconds
                _spread(progress, shard_count(seconds, total, devices.workers))
        #: An entry for each waiting shard of each job.
        self._waiting = deque(progress for progress in jobs.values() for _ in progress.waiting)

    def job(self, run_id: str) -> Job:
        """Return a job of the scan."""
        return self._jobs[run_id].job

    def next_tasks(self, host: Host) -> tuple[Task, ...]:
        """Return the next tasks of an idle worker; see ``TaskSource``."""
        while chosen := self._choose(host):
            starts = [AttemptStart(each.job.key, after=each.attempt) for each in chosen]
            attempts = self._registry.attempts.start(starts)
            tasks = []
            for progress, attempt in zip(chosen, attempts, strict=True):
                if attempt is None:
                    self._withdraw(progress)
                else:
                    tasks.append(progress.begin(attempt, self._deadline))
            if tasks:
                return tuple(tasks)
        return ()

    def is_withdrawn(self, run_id: str) -> bool:
        """Return whether a run was cancelled, or failed elsewhere; see ``TaskSource``."""
        self._look_for_cancelled()
        return self._jobs[run_id].closed

    def is_over(self) -> bool:
        """Return whether every job is over, cancelled ones included; see ``TaskSource``."""
        self._look_for_cancelled()
        return all(progress.closed for progress in self._jobs.values())

    def handle(self, events: Iterable[Event]) -> list[Event]:
        """Persist worker events, then return the ones to report.

        The failure of a job that is planned anew is none to report.
        """
        recorded = self._recorder.record(events)
        recorded = [event for event in recorded if not self._replaces(event)]
        for event in recorded:
            progress = self._jobs[event.run_id]
            if isinstance(event, Started):
                self._speed.begin(event.run_id)
            elif isinstance(event, Halved) and event.measure is None:
                place = progress.job.full_name, event.device_name, progress.job.transform.size
                known = self._fitting.get(place, event.micro_batch)
                self._fitting[place] = min(known, event.micro_batch)
            elif isinstance(event, Finished):
                self._speed.end(event.run_id, self._estimates[event.run_id].seconds)
                self.done.append(progress.job)
            elif isinstance(event, Failed):
                self.failed.append((progress.job, event))
            elif isinstance(event, (Lost, Returned)):
                self._waiting.appendleft(progress)
            if isinstance(event, Lost):
                # The job may have killed the worker: it is not given out with others again.
                self._alone.add(event.run_id)
        return [event for event in recorded if not isinstance(event, Returned)]

    def _replaces(self, event: Event) -> bool:
        """Plan a job anew whose weights changed, once; return whether that was done."""
        if not (isinstance(event, Failed) and event.changed_weights):
            return False
        job = self.job(event.run_id)
        if job in self.replaced.values() or not (progress := self._planned_anew(job)):
            return False
        self.replaced[event.run_id] = progress.job
        if self._jobs.setdefault(progress.job.run_id, progress) is progress:
            self._waiting.extend(progress for _ in progress.waiting)
        return True

    def _choose(self, host: Host) -> list[JobProgress]:
        """Return the next job that waits, or several that are short."""
        chosen: list[JobProgress] = []
        # Fewer at once when few are left, so that all workers end at about the same time.
        most = max(1, min(TOGETHER, math.ceil(len(self._waiting) / (4 * self._workers))))
        total = 0.0
        while self._waiting and len(chosen) < most:
            progress = self._waiting[0]
            if progress.closed or not progress.waiting:
                self._waiting.popleft()
                continue
            seconds = self._expected_seconds(progress.job.run_id)
            if chosen and (seconds > SHORT_SECONDS or total + seconds > TOGETHER_SECONDS):
                break
            total += seconds
            chosen.append(self._waiting.popleft())
            self._fit(progress, host)
        return chosen

    def _expected_seconds(self, run_id: str) -> float:
        if run_id in self._alone:
            return math.inf
        return self._estimates[run_id].seconds * self._speed.factor

    def _fit(self, progress: JobProgress, host: Host) -> None:
        """Begin with forward passes that fitted this network on this device before."""
        job = progress.job
        usual = job.settings.pass_images(accelerator=host.device != "cpu")
        known = self._fitting.get((job.full_name, host.device_name, job.transform.size), usual)
        progress.micro_batch = min(usual, known, progress.fitting or usual)

    def _look_for_cancelled(self) -> None:
        if time.monotonic() - self._asked < CANCEL_SECONDS:
            return
        self._asked = time.monotonic()
        cancelled = self._registry.cancelled_keys()
        for progress in self._jobs.values():
            if progress.job.key in cancelled:
                self._withdraw(progress)

    def _withdraw(self, progress: JobProgress) -> None:
        if not progress.closed:
            self._recorder.withdraw(progress.job)
            self.cancelled.append(progress.job)
            self._withdrawn(progress.job)


class _Speed:
    """How the time that finished jobs took compares with the estimates."""

    def __init__(self) -> None:
        self._began: dict[str, float] = {}
        self._taken = self._expected = 0.0

    def begin(self, run_id: str) -> None:
        self._began.setdefault(run_id, time.monotonic())

    def end(self, run_id: str, expected: float) -> None:
        self._taken += time.monotonic() - self._began.pop(run_id, time.monotonic())
        self._expected += expected

    @property
    def factor(self) -> float:
        return self._taken / self._expected if self._expected else 1.0


def _spread(progress: JobProgress, count: int) -> None:
    """Share a job that is too long for one worker out over several."""
    batches = progress.job.images // progress.job.settings.score_images
    progress.waiting = deque(
        shard for waiting in progress.waiting for shard in split(waiting, count, batches)
    )
