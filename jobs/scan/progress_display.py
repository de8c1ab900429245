"""The progress display on standard error: bars on a terminal that shows them, else plain lines."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from catalog.models.base import RemoteFile
from catalog.store.records import BatchRecord
from jobs.runners.events import (
    Event,
    Failed,
    Finished,
    Host,
    Lost,
    Measuring,
    Skipped,
    Started,
)
from jobs.scan.display_lines import (
    batches_of,
    cancelling,
    closing,
    measures_line,
    opening,
    under_way,
    workers_line,
)
from jobs.scan.reporter import Reporter
from jobs.scan.title_line import TitleLine
from jobs.unread_stream import ErrorConsole
from survey.text import format_bytes, format_duration, printable

if TYPE_CHECKING:
    from jobs.planning.estimate import Estimate
    from jobs.planning.job import Job
    from jobs.planning.plan import Plan
    from jobs.planning.worker_layout import Devices

_Item = TypeVar("_Item")

#: Seconds between two plain lines about the batches of one job.
PLAIN_INTERVAL_SECONDS = 10.0


@contextlib.contextmanager
def progress_reporter(console: Console | None = None) -> Iterator[Reporter]:
    """Yield bars if the console, by default standard error, can show them; else plain lines."""
    console = console or ErrorConsole()
    if not console.is_interactive:
        yield _Lines(console)
        return
    with _bars(console) as bars:
        yield _Bars(bars)


def watched(what: str, items: Sequence[_Item]) -> Iterator[_Item]:
    """Yield items under a bar that disappears at the end; without one off a terminal."""
    console = ErrorConsole()
    if not console.is_interactive:
        yield from items
        return
    with _bars(console, transient=True) as bars:
        yield from bars.track(items, description=what)


def _bars(console: Console, *, transient: bool = False) -> Progress:
    columns = (
        _TitleColumn(Column(ratio=1)),
        BarColumn(bar_width=min(24, console.width // 5)),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    # Batches may take minutes: rich would look back half a minute and see none.
    return Progress(
        *columns,
        console=console,
        speed_estimate_period=3600,
        transient=transient,
        # Titles take what the other columns leave; without them bars would be pushed out.
        expand=True,
    )


class _TitleColumn(ProgressColumn):
    """What a bar is about, cut where a name is long."""

    def render(self, task: Task) -> TitleLine:
        return TitleLine(task.description)


class _Display(Reporter):
    """What both displays print: the plan, the workers and warnings."""

    def __init__(self, console: Console) -> None:
        self._console = console
        #: What each run lacked at first, and the batches measured since.
        self._estimates: Mapping[str, Estimate] = {}
        self._measured: dict[str, set[int]] = {}

    def planned(self, plan: Plan) -> None:
        for line in opening(plan).split("\n"):
            self._print(line)

    def started(self, devices: Devices, estimates: Mapping[str, Estimate]) -> None:
        self._estimates, self._measured = estimates, {}
        self._print(workers_line(devices))
        if line := measures_line(estimates):
            self._print(line)

    def warned(self, warning: str) -> None:
        self._print(f"warning: {warning}")

    def _batches_done(self, job: Job, event: BatchRecord) -> int:
        """Return how many batches of a job are done; workers may measure parts of it at once."""
        measured = self._measured.setdefault(job.run_id, set())
        measured.add(event.batch.batch)
        lacking = self._estimates[job.run_id].images
        before = batches_of(job) - math.ceil(lacking / job.settings.score_images)
        return before + len(measured)

    def _print(self, line: str) -> None:
        self._console.print(printable(line), soft_wrap=True)


class _Bars(_Display):
    """An overall bar, and a line for each worker with its job, its batches and its ETA."""

    def __init__(self, bars: Progress) -> None:
        super().__init__(bars.console)
        self._bars = bars
        self._overall: TaskID | None = None
        #: The line of each worker, and the worker of each attempt.
        self._lines: dict[Host, TaskID] = {}
        self._hosts: dict[tuple[str, int], Host] = {}
        #: The run that each worker began last.
        self._runs: dict[Host, str] = {}
        self._files: dict[str, TaskID] = {}

    def fetching(self, file: RemoteFile, here: int, total: int | None) -> None:
        if file.url not in self._files:
            self._files[file.url] = self._bars.add_task(
                printable(f"fetch {file.name} (MB)"), total=None
            )
        line = self._files[file.url]
        whole = None if total is None else max(1, total // 10**6)
        done = here // 10**6 if whole is None else min(here // 10**6, whole)
        self._bars.update(line, completed=done, total=whole, visible=here != total)

    def planned(self, plan: Plan) -> None:
        super().planned(plan)
        self._overall = self._bars.add_task("all jobs", total=len(plan.todo))

    def event(self, job: Job, event: Event) -> None:
        attempt = (event.run_id, event.attempt)
        if isinstance(event, Started):
            self._hosts[attempt], self._runs[event.host] = event.host, event.run_id
            line, title = self._line(event.host), printable(job.title)
            self._bars.reset(line, total=batches_of(job), description=title)
        elif isinstance(event, Measuring):
            line = self._line(self._hosts[attempt])
            self._bars.update(line, description=printable(under_way(job, event)))
        elif isinstance(event, BatchRecord):
            line, done = self._line(self._hosts[attempt]), self._batches_done(job, event)
            self._bars.update(line, completed=done, description=printable(job.title))
        else:
            self._print(closing(job, event))
            if isinstance(event, (Finished, Failed)):
                self._advance()
            host = self._hosts.get(attempt)
            if isinstance(event, Failed):
                self._stop(job, but=None if event.stage == "worker" else host)
            elif isinstance(event, Lost) and host in self._lines:
                self._bars.remove_task(self._lines.pop(host))

    def withdrawn(self, job: Job) -> None:
        self._print(cancelling(job))
        self._advance()
        self._stop(job)

    def replaced(self, job: Job, by: Job | None) -> None:
        self._stop(job)
        if by is None:
            self._advance()

    def _advance(self) -> None:
        if self._overall is not None:
            self._bars.advance(self._overall)

    def _stop(self, job: Job, but: Host | None = None) -> None:
        """Remove the lines of a job's workers, which are stopped, but for one of them."""
        for host in [each for each in self._lines if self._runs[each] == job.run_id]:
            if host != but:
                self._bars.remove_task(self._lines.pop(host))

    def _line(self, host: Host) -> TaskID:
        if host not in self._lines:
            self._lines[host] = self._bars.add_task("", total=None)
        return self._lines[host]


class _Lines(_Display):
    """A line when a job begins and when it ends, and one every few seconds in between."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._began = time.monotonic()
        #: When the next line about a file or a run may be printed.
        self._next_line: dict[str, float] = {}
        self._done = self._total = 0

    def fetching(self, file: RemoteFile, here: int, total: int | None) -> None:
        if here == total or time.monotonic() >= self._next_line.get(file.url, 0.0):
            self._next_line[file.url] = time.monotonic() + PLAIN_INTERVAL_SECONDS
            size = "unknown size" if total is None else format_bytes(total)
            self._print(f"fetch   {file.name}: {format_bytes(here)} of {size}")

    def planned(self, plan: Plan) -> None:
        # A service's driver runs one survey after the other.
        self._done, self._total = 0, len(plan.todo)
        super().planned(plan)

    def started(self, devices: Devices, estimates: Mapping[str, Estimate]) -> None:
        self._began = time.monotonic()
        super().started(devices, estimates)

    def event(self, job: Job, event: Event) -> None:
        if isinstance(event, Started):
            self._next_line[event.run_id] = time.monotonic() + PLAIN_INTERVAL_SECONDS
            self._print(f"start   {job.run_id} {job.title}")
        elif isinstance(event, Measuring):
            if time.monotonic() >= self._next_line.get(event.run_id, 0.0):
                self._next_line[event.run_id] = time.monotonic() + PLAIN_INTERVAL_SECONDS
                self._print(f"measure {job.run_id} {under_way(job, event)}")
        elif isinstance(event, BatchRecord):
            done, total = self._batches_done(job, event), batches_of(job)
            if time.monotonic() >= self._next_line.get(event.run_id, 0.0):
                self._next_line[event.run_id] = time.monotonic() + PLAIN_INTERVAL_SECONDS
                left = format_duration(event.batch.seconds * (total - done))
                line = f"batch   {job.run_id} {job.title}: {done} of {total}"
                self._print(f"{line}, about {left} left" if done < total else line)
        elif isinstance(event, Skipped):
            self._print(closing(job, event))
        else:
            self._done += isinstance(event, (Finished, Failed))
            self._print_end(closing(job, event))

    def withdrawn(self, job: Job) -> None:
        self._done += 1
        self._print_end(cancelling(job))

    def replaced(self, job: Job, by: Job | None) -> None:  # noqa: ARG002 - the warning names both
        self._done += by is None

    def _print_end(self, line: str) -> None:
        self._print(f"{line} [{self._done}/{self._total}{self._remaining()}]")

    def _remaining(self) -> str:
        if not self._done or self._done >= self._total:
            return ""
        seconds = (time.monotonic() - self._began) * (self._total - self._done) / self._done
        return f", about {format_duration(seconds)} left"
