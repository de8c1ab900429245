"""Progress on standard error: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from catalog.models.base import RemoteFile
from jobs.planning.devices import Devices
from jobs.planning.job import Job
from jobs.planning.plan import Plan
from jobs.planning.staleness import told
from jobs.runners.events import BatchDone, Event, Failed, Finished, Halved, Lost, Started
from jobs.scan.reporter import Reporter
from survey.text import counted, format_bytes, format_duration

_Item = TypeVar("_Item")

#: Seconds between two plain lines about the same worker.
PLAIN_INTERVAL_SECONDS = 10.0


@contextlib.contextmanager
def progress_reporter() -> Iterator[Reporter]:
    """Yield bars if standard error is a terminal, plain lines otherwise."""
    console = Console(stderr=True, highlight=False, markup=False)
    if not console.is_terminal:
        yield PlainReporter(console)
        return
    with _bars(console) as bars:
        yield BarReporter(bars)


def watched(what: str, items: Sequence[_Item]) -> Iterator[_Item]:
    """Yield items under a bar that is gone at the end; elsewhere than on a terminal without one."""
    console = Console(stderr=True, highlight=False, markup=False)
    if not console.is_terminal:
        yield from items
        return
    with _bars(console, transient=True) as bars:
        yield from bars.track(items, description=what)


def _bars(console: Console, *, transient: bool = False) -> Progress:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    # Batches may take minutes: rich would look back half a minute and see none.
    return Progress(*columns, console=console, speed_estimate_period=3600, transient=transient)


def opening(plan: Plan) -> str:
    """Return lines that say what is to be done and why, and what is skipped."""
    todo, done, held = len(plan.todo), len(plan.done), len(plan.held)
    skipped = f", {done} already measured and skipped" if done else ""
    waiting = f", {held} parked or cancelled (survey retry takes them up again)" if held else ""
    lacking = f", {len(plan.lacking)} lack a file" if plan.lacking else ""
    whole = len(plan.jobs) + len(plan.lacking)
    lines = [f"{todo} of {whole} jobs to measure{skipped}{waiting}{lacking}"]
    return "\n".join([*lines, why] if (why := told(plan.reasons.values())) else lines)


def closing(job: Job, event: Event) -> str:
    """Return one line that says what became of a job, or of an attempt at it."""
    if isinstance(event, Halved):
        return f"memory  {job.run_id} {job.title}: micro-batch {event.micro_batch} from here on"
    if isinstance(event, Finished):
        skipped = counted(len(event.skipped), "image")
        rest = f" ({skipped} skipped at the end)" if event.skipped else ""
        return f"done    {job.run_id} {job.title}{rest}"
    word = "failed " if isinstance(event, Failed) else "retry  "
    said = event.message if isinstance(event, (Failed, Lost)) else ""
    return f"{word} {job.run_id} {job.title}: {said}"


def ends(event: Event) -> bool:
    """Tell whether a job is over with an event."""
    return isinstance(event, (Finished, Failed))


def batches_of(job: Job) -> int:
    """Return how many batches a job has, a partial last one included."""
    return -(-job.images // job.settings.images_per_score)


class BarReporter:
    """An overall bar, and a line for each worker with its job, its batches and its ETA."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._overall: TaskID | None = None
        self._lines: dict[int, TaskID] = {}
        self._files: dict[str, TaskID] = {}

    def fetching(self, file: RemoteFile, here: int, total: int | None) -> None:
        """Move the file's line, in MB."""
        if file.url not in self._files:
            self._files[file.url] = self._bars.add_task(f"fetch {file.name} (MB)", total=None)
        line = self._files[file.url]
        whole = None if total is None else max(1, total // 10**6)
        done = here // 10**6 if whole is None else min(here // 10**6, whole)
        self._bars.update(line, completed=done, total=whole, visible=here != total)

    def planned(self, plan: Plan) -> None:
        """Open the overall bar."""
        self._bars.console.print(opening(plan))
        self._overall = self._bars.add_task("all jobs", total=len(plan.todo))

    def started(self, devices: Devices) -> None:
        """Say what computes."""
        self._bars.console.print(workers_line(devices))

    def warned(self, words: str) -> None:
        """Say it above the bars."""
        self._bars.console.print(f"warning: {words}", soft_wrap=True)

    def event(self, worker: int, job: Job, event: Event) -> None:
        """Move the worker's line."""
        if isinstance(event, Started):
            self._bars.reset(self._line(worker), total=batches_of(job), description=job.title)
        elif isinstance(event, BatchDone):
            self._bars.update(self._line(worker), completed=event.batch.batch + 1)
            _warn_of_skipped(self._bars.console, event)
        else:
            self._bars.console.print(closing(job, event))
            if ends(event) and self._overall is not None:
                self._bars.advance(self._overall)

    def _line(self, worker: int) -> TaskID:
        if worker not in self._lines:
            self._lines[worker] = self._bars.add_task(f"worker {worker}", total=None)
        return self._lines[worker]


class PlainReporter:
    """A line when a job begins and ends, and one now and then in between."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._spoke: dict[int, float] = {}
        self._fetched: dict[str, float] = {}
        self._done = self._total = 0

    def fetching(self, file: RemoteFile, here: int, total: int | None) -> None:
        """Say what is fetched, no more than one line every few seconds."""
        spoke = self._fetched.get(file.url)
        whole = here == total
        if spoke is None or whole or time.monotonic() - spoke >= PLAIN_INTERVAL_SECONDS:
            self._fetched[file.url] = time.monotonic()
            size = "unknown size" if total is None else format_bytes(total)
            self._say(f"fetch   {file.name}: {format_bytes(here)} of {size}")

    def planned(self, plan: Plan) -> None:
        """Say what is to be done."""
        self._total = len(plan.todo)
        self._say(opening(plan))

    def started(self, devices: Devices) -> None:
        """Say what computes."""
        self._began = time.monotonic()
        self._say(workers_line(devices))

    def warned(self, words: str) -> None:
        """Say it."""
        self._say(f"warning: {words}")

    def event(self, worker: int, job: Job, event: Event) -> None:
        """Say what happened, batches no more than one line every few seconds."""
        if isinstance(event, Started):
            self._spoke[worker] = time.monotonic()
            self._say(f"start   {job.run_id} {job.title}")
        elif isinstance(event, BatchDone):
            _warn_of_skipped(self._console, event)
            if time.monotonic() - self._spoke.get(worker, 0.0) >= PLAIN_INTERVAL_SECONDS:
                self._spoke[worker] = time.monotonic()
                done, total = event.batch.batch + 1, batches_of(job)
                left = format_duration(event.batch.seconds * (total - done))
                line = f"batch   {job.run_id} {job.title}: {done} of {total}"
                self._say(f"{line}, about {left} left" if done < total else line)
        else:
            self._done += ends(event)
            self._say(f"{closing(job, event)} [{self._done}/{self._total}{self._remaining()}]")

    def _remaining(self) -> str:
        if not self._done or self._done >= self._total:
            return ""
        seconds = (time.monotonic() - self._began) * (self._total - self._done) / self._done
        return f", about {format_duration(seconds)} left"

    def _say(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)


def workers_line(devices: Devices) -> str:
    """Return one line that says what computes."""
    workers, threads = counted(devices.workers, "worker"), counted(devices.threads, "thread")
    return f"{workers} on {devices.kind}, {threads} each"


def _warn_of_skipped(console: Console, event: BatchDone) -> None:
    for image in event.skipped:
        told = image.reason if image.name in image.reason else f"{image.name}: {image.reason}"
        console.print(f"skipped {event.run_id} image {told}", soft_wrap=True)
