"""The files in a home that tell other processes how far its scan is, and its downloads before."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from catalog.home import Home
from catalog.models.base import RemoteFile
from catalog.store.records import BatchRecord
from catalog.store.writer_lock import own_process
from jobs.planning.estimate import Estimate
from jobs.planning.job import Job
from jobs.planning.plan import Plan
from jobs.planning.worker_layout import Devices
from jobs.runners.events import Event, Failed, Finished, Host, Lost, Measuring, Started
from jobs.scan.download_file import DownloadFile
from jobs.scan.reporter import Reporter
from jobs.scan.scan_progress import (
    End,
    JobFailure,
    ScanProgress,
    WorkerProgress,
    write_progress,
)
from survey.errors import SurveyError

#: Seconds between two times that the file is written, if there is anything new.
WRITE_SECONDS = 1.0

#: Failures that the file names, and batches that the present speed is taken from.
MOST_FAILURES, RECENT_BATCHES = 20, 32


class ProgressFile(Reporter):
    """Passes reports on and keeps the files of a home's scan up to date, until the scan ends.

    The files need no lock: they appear whole under their names. A thread of its own writes them, at
    most once a second, so that no scan waits for it, and none fails if they cannot be written.

    Parameters
    ----------
    home : Home
        The home that the scan writes to.
    reporter : Reporter
        Gets every report first.
    """

    def __init__(self, home: Home, reporter: Reporter) -> None:
        self._path, self._reporter = home.progress, reporter
        self._downloads = DownloadFile(home.downloads)
        #: None until the scan holds the home's writer lock and its jobs are known.
        self._progress: ScanProgress | None = None
        self._lacking = 0
        self._estimates: Mapping[str, Estimate] = {}
        #: Of each run, the images that this scan measured and the part of its seconds they make.
        self._images: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        self._all_seconds = self._done_seconds = 0.0
        self._working: dict[Host, WorkerProgress] = {}
        self._hosts: dict[tuple[str, int], Host] = {}
        self._recent: deque[tuple[float, int]] = deque(maxlen=RECENT_BATCHES)
        self._changed, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._keep, name="progress file", daemon=True)

    def __enter__(self) -> ProgressFile:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._changed.set()
        self._thread.join()
        self._downloads.download = None
        self._write()
        if self._progress is None:
            return
        end: End = "failed" if self._progress.failed or self._lacking else "done"
        if isinstance(error, Exception):
            end = "error"
            code = error.exit_code if isinstance(error, SurveyError) else 1
            self._update(error=str(error), error_code=code)
        elif error is not None:
            end = "interrupted"
        self._update(ended_at=time.time(), end=end)
        self._write()

    def fetching(self, file: RemoteFile, here: int, total: int | None) -> None:
        """Note how far a download is; the scan itself has not begun."""
        self._reporter.fetching(file, here, total)
        self._downloads.note(file, here, total)
        self._changed.set()

    def warned(self, warning: str) -> None:
        """Pass the report on."""
        self._reporter.warned(warning)

    def planned(self, plan: Plan) -> None:
        """Begin the file of this scan."""
        self._reporter.planned(plan)
        self._downloads.download = None
        self._lacking = len(plan.lacking) + len(plan.held_as("parked"))
        self._progress = ScanProgress(own_process(), time.time(), len(plan.todo), len(plan.done))
        self._changed.set()

    def started(self, devices: Devices, estimates: Mapping[str, Estimate]) -> None:
        """Note the workers and what there is to do."""
        self._reporter.started(devices, estimates)
        self._estimates = estimates
        self._all_seconds = sum(each.seconds for each in estimates.values())
        self._update(
            workers=devices.workers,
            device=devices.kind,
            threads=devices.threads,
            total_images=sum(each.images for each in estimates.values()),
        )

    def event(self, job: Job, event: Event) -> None:
        """Note how far a job is, or how it ended."""
        self._reporter.event(job, event)
        progress = self._progress
        if progress is None:
            return
        if isinstance(event, Started):
            self._begin(job, event)
            since = progress.measuring_since or time.time()
            if not self._recent:
                self._recent.append((since, 0))
            self._update(measuring_since=since)
        elif isinstance(event, Measuring):
            self._measure(event)
            self._update()
        elif isinstance(event, BatchRecord):
            self._add_batch(job, event)
            since, _ = self._recent[0]
            self._update(
                images=progress.images + event.batch.images,
                recent_since=since,
                recent_images=sum(images for _, images in list(self._recent)[1:]),
            )
        elif isinstance(event, Finished):
            self._credit(event.run_id, math.inf)
            self._leave(event, gone=False)
            self._update(done=progress.done + 1)
        elif isinstance(event, Failed):
            self._leave(event, gone=event.stage == "worker")
            self._stop(job)
            failure = JobFailure(job.run_id, job.title, event.stage, event.message)
            failures = (*progress.failures, failure)[-MOST_FAILURES:]
            self._update(failed=progress.failed + 1, failures=failures)
        elif isinstance(event, Lost):
            self._leave(event, gone=True)
            self._update()

    def withdrawn(self, job: Job) -> None:
        """Note that a cancelled job is over."""
        self._reporter.withdrawn(job)
        self._stop(job)
        self._update()

    def replaced(self, job: Job, by: Job | None) -> None:
        """Count the job that is measured in another's place."""
        self._reporter.replaced(job, by)
        if (progress := self._progress) is None:
            return
        before = self._estimates[job.run_id]
        rest = before.seconds - self._seconds.get(job.run_id, 0.0)
        images = progress.total_images - before.images + self._images.get(job.run_id, 0)
        self._stop(job)
        if by is not None:
            after = self._estimates[by.run_id]
            images += after.images
            # The rest of the job is nobody's work any more.
            self._done_seconds -= rest
            self._all_seconds += after.seconds - rest
        self._update(total_images=images, jobs=progress.jobs - (by is None))

    def _begin(self, job: Job, event: Started) -> None:
        host = self._hosts[event.run_id, event.attempt] = event.host
        before = job.images - self._left(job.run_id)
        done = before + self._images.setdefault(job.run_id, 0)
        self._working[host] = WorkerProgress(
            host.hostname, host.pid, host.device_name, job.run_id, job.title, done, job.images
        )

    def _measure(self, event: Measuring) -> None:
        """Count a part of a measure's expected time, and the measures before it."""
        taken = self._estimates[event.run_id].measures if event.run_id in self._estimates else {}
        names = list(taken)
        if event.measure in names:
            before = names[: names.index(event.measure)]
            seconds = sum(taken[name] for name in before) + taken[event.measure] * event.fraction
            self._credit(event.run_id, seconds)
        self._show_measure(event, f"{event.measure} {event.fraction:.0%}")

    def _add_batch(self, job: Job, event: BatchRecord) -> None:
        self._images[job.run_id] += event.batch.images
        self._recent.append((time.time(), event.batch.images))
        left = self._left(job.run_id)
        if estimate := self._estimates.get(job.run_id):
            part = self._images[job.run_id] / left if left else 1.0
            self._credit(job.run_id, estimate.measure_seconds + estimate.score_seconds * part)
        done = job.images - left + self._images[job.run_id]
        self._show_measure(event, "")
        # Several workers may measure parts of one job: what is done of it is shown with each.
        by = self._hosts.get((event.run_id, event.attempt))
        for host, worker in self._working.items():
            if worker.run_id == event.run_id:
                own = worker.own_images + (event.batch.images if host == by else 0)
                self._working[host] = dataclasses.replace(worker, images=done, own_images=own)

    def _show_measure(self, event: Measuring | BatchRecord, text: str) -> None:
        host = self._hosts.get((event.run_id, event.attempt))
        if host is not None and host in self._working:
            self._working[host] = dataclasses.replace(self._working[host], measure=text)

    def _stop(self, job: Job) -> None:
        """Count a job as over, whose workers are stopped."""
        self._credit(job.run_id, math.inf)
        for host in [host for host, each in self._working.items() if each.run_id == job.run_id]:
            del self._working[host]

    def _leave(self, event: Finished | Failed | Lost, *, gone: bool) -> None:
        """Note that a worker has no job any more, or that it is gone."""
        host = self._hosts.get((event.run_id, event.attempt))
        if host is None:
            return
        worker = self._working.pop(host, None)
        if worker is not None and not gone:
            self._working[host] = WorkerProgress(host.hostname, host.pid, host.device_name)

    def _left(self, run_id: str) -> int:
        """Return the images that a run lacked when the scan began."""
        return self._estimates[run_id].images if run_id in self._estimates else 0

    def _credit(self, run_id: str, seconds: float) -> None:
        """Count as done so much of a run's expected time, at most all of it."""
        if run_id in self._estimates:
            before = self._seconds.get(run_id, 0.0)
            # One worker may still compute a measure while others have batches.
            seconds = max(before, min(self._estimates[run_id].seconds, seconds))
            self._done_seconds += seconds - before
            self._seconds[run_id] = seconds

    def _update(self, **changes: Any) -> None:
        if self._progress is not None:
            fraction = self._done_seconds / self._all_seconds if self._all_seconds else 0.0
            working = tuple(self._working.values())
            self._progress = dataclasses.replace(
                self._progress, working=working, fraction=min(1.0, fraction), **changes
            )
            self._changed.set()

    def _keep(self) -> None:
        while not self._ended.is_set():
            # A download that stalls is renewed too: its process is there.
            self._changed.wait(WRITE_SECONDS if self._downloads.download else None)
            self._changed.clear()
            self._write()
            self._ended.wait(WRITE_SECONDS)

    def _write(self) -> None:
        self._downloads.write()
        # A disk that is full ends the scan by what it measured, not by this.
        with suppress(OSError):
            if self._progress is not None:
                write_progress(self._path, self._progress)
