"""Carrying out what is due: each due time once, by whichever process looks first. Start here.

``tick`` claims what fell due, takes one due time after the other, runs its survey, and writes down
what became of it. Any number of processes may call it at any time, once (cron, systemd,
Kubernetes) or in a loop. A process that dies in the middle leaves its due time to the next one
that looks, which goes on with the same run: what is durable is not measured again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING

from catalog.home import Home
from catalog.registry.registry import Registry
from catalog.registry.schedules import Occurrence, Schedule, Schedules, Settlement
from jobs.schedules.cron import GRACE_SECONDS, by_policy, definition_of, due_until
from jobs.schedules.process import is_gone, this_process
from survey import ClusterError, StoreError, SurveyError

if TYPE_CHECKING:
    from catalog.models.base import RemoteFile
    from jobs.planning.devices import Devices
    from jobs.planning.job import Job
    from jobs.planning.plan import Plan
    from jobs.run import Outcome
    from jobs.runners.base import Runner
    from jobs.runners.events import Event
    from jobs.runners.options import Limits
    from jobs.scan.reporter import Reporter

#: How often the process that runs a due time says that it is there, and looks what else is due.
BEAT_SECONDS = 15.0

#: How long after its last word another host takes it to be gone.
LEASE_SECONDS = 90.0

#: Processes that may die over one due time.
MOST_LOSSES = 5

#: A moment further ahead than this was written down by a clock that was wrong.
AHEAD = timedelta(hours=1)

Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Ran:
    """A due time that was carried out, or left to wait, by this process."""

    schedule: Schedule
    #: As it stands afterwards.
    tick: Occurrence
    #: Why it was left to wait; None if it was settled.
    left: SurveyError | None = None
    #: Whether that is another scan, which will end by itself.
    busy: bool = False
    #: What became of the survey, where it came to an end.
    outcome: Outcome | None = None


def utc_now() -> datetime:
    """Return this moment."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things may take, in seconds."""

    #: How late a due time may be seen and still not count as missed.
    grace: float = GRACE_SECONDS
    #: Between two signs of life of a process that runs a due time.
    beat: float = BEAT_SECONDS
    #: From its last sign of life until another host takes it to be gone.
    lease: float = LEASE_SECONDS


def tick(
    home: Home,
    make_runner: Callable[[], Runner],
    reporter: Reporter,
    *,
    offline: bool = False,
    limits: Limits | None = None,
    now: Clock = utc_now,
    pace: Pace | None = None,
) -> list[Ran]:
    """Carry out what is due and nobody else is at, until there is nothing left.

    Parameters
    ----------
    home : Home
        Where the schedules are and the measurements go.
    make_runner : callable
        Makes the runner of each survey.
    reporter : Reporter
        Who is told of progress.
    offline : bool
        Whether to fetch nothing.
    limits : Limits, optional
        What jobs are allowed.
    now : callable
        The clock.
    pace : Pace, optional
        How long things may take.

    Returns
    -------
    list of Ran
        What was carried out, and what had to be left.

    Raises
    ------
    StoreError
        If the registry cannot be used.
    """
    pace = pace or Pace()
    ran: list[Ran] = []
    passed: set[int] = set()
    with Registry(home) as registry:
        schedules = registry.schedules
        look(schedules, now(), pace.grace)
        while (front := _next(schedules, passed, now())) is not None:
            schedule, due = front
            passed.add(due.id)
            # Before the due time is taken: options that cannot be used leave it waiting.
            runner = make_runner()
            moment = now()
            lease_until = moment + timedelta(seconds=pace.lease)
            taken = schedules.take(due, this_process(), moment, lease_until)
            if taken is not None:
                run = _Run(home, schedules, schedule, taken, now, pace)
                ran.append(run.carry_out(runner, reporter, offline=offline, limits=limits))
            look(schedules, now(), pace.grace)
    return ran


def look(schedules: Schedules, now: datetime, grace_seconds: float = GRACE_SECONDS) -> None:
    """Claim what fell due, and apply each schedule's policies to it. Runs nothing."""
    for schedule in schedules.all():
        if schedule.paused_at is not None:
            continue
        if schedule.settled_at > now + AHEAD:
            # A clock was wrong and was put right. What was run meanwhile is not run again.
            schedules.settle_anew(schedule, now)
            continue
        times = due_until(schedule, now)
        if times:
            due = by_policy(times, schedule.missed, now, grace_seconds)
            schedules.claim(schedule, due, now, settled_at=times[-1])
        if schedule.overlap != "queue":
            _apply_overlap(schedules, schedule, now)


def _apply_overlap(schedules: Schedules, schedule: Schedule, now: datetime) -> None:
    for later in schedules.open_occurrences(schedule):
        # What was begun once is no newcomer any more.
        if later.state != "waiting" or later.claim:
            continue
        for former in schedules.overlapping(later):
            if former.ended_at is not None and former.ended_at > now + AHEAD:
                continue
            if schedule.overlap == "skip":
                reason = f"the run due at {_said(former.due_at)} had not ended"
                schedules.settle(later, Settlement("skipped", reason), now)
                break
            if former.state == "running" and former.cancel_at is None:
                schedules.request_cancel(former, now)
            elif former.state == "waiting":
                reason = f"the run due at {_said(later.due_at)} took its place"
                schedules.settle(former, Settlement("replaced", reason), now)


def _next(
    schedules: Schedules, passed: set[int], now: datetime
) -> tuple[Schedule, Occurrence] | None:
    """Return the due time that waits longest and that this process may take."""
    fronts = [
        (schedule, front)
        for schedule in schedules.all()
        if schedule.paused_at is None
        and (front := _front(schedules, schedule, now)) is not None
        and front.id not in passed
    ]
    return min(fronts, key=lambda one: one[1].due_at, default=None)


def _front(schedules: Schedules, schedule: Schedule, now: datetime) -> Occurrence | None:
    """Return a schedule's oldest open tick, if nobody runs it; settle those that are past help."""
    for front in schedules.open_occurrences(schedule):
        if front.state == "waiting":
            return front
        if not is_gone(front, now):
            return None
        if front.cancel_at is not None:
            reason = "a later run took its place; its process is gone"
            schedules.settle(front, Settlement("replaced", reason), now)
        elif front.losses + 1 >= MOST_LOSSES:
            reason = f"{MOST_LOSSES} processes died over it, the last on {front.host}"
            schedules.settle(front, Settlement("failed", reason), now)
        else:
            return front
    return None


class _Stopped(Exception):
    """The run of a due time has to stop: a later one replaces it, or another process has it."""


class _Run:
    """One due time, taken by this process."""

    def __init__(
        self,
        home: Home,
        schedules: Schedules,
        schedule: Schedule,
        due: Occurrence,
        now: Clock,
        pace: Pace,
    ) -> None:
        self._home, self._schedules, self._schedule = home, schedules, schedule
        self._tick, self._now, self._pace = due, now, pace

    def carry_out(
        self, runner: Runner, reporter: Reporter, *, offline: bool, limits: Limits | None
    ) -> Ran:
        """Run the survey and write down what became of it."""
        # Imported only when there is something to run: looking has to be quick.
        from jobs.run import run_survey

        try:
            with _Lease(self._schedules, self._tick, self._now, self._pace) as lease:
                definition = definition_of(self._schedule)
                watched = _Watched(reporter, lease)
                outcome = run_survey(
                    self._home, definition, runner, watched, offline=offline, limits=limits
                )
        except _Stopped:
            return self._settle(Settlement("replaced", "a later run took its place"))
        except KeyboardInterrupt:
            self._schedules.release(self._tick, "interrupted", begun=True)
            raise
        except (StoreError, ClusterError) as error:
            return self._leave(error)
        except SurveyError as error:
            return self._settle(Settlement("failed", error.message))
        except Exception as error:
            self._settle(Settlement("failed", f"{type(error).__name__}: {error}"))
            raise
        return self._settle(settlement_of(outcome), outcome)

    def _settle(self, settlement: Settlement, outcome: Outcome | None = None) -> Ran:
        self._schedules.settle(self._tick, settlement, self._now())
        return Ran(self._schedule, self._latest(), outcome=outcome)

    def _leave(self, error: SurveyError) -> Ran:
        from catalog.store.writer_lock import writing_process

        # Not the survey's fault: the store or the cluster may be there when somebody looks again.
        busy = isinstance(error, StoreError) and writing_process(self._home) is not None
        self._schedules.release(self._tick, error.message, begun=not busy)
        return Ran(self._schedule, self._latest(), left=error, busy=busy)

    def _latest(self) -> Occurrence:
        return self._schedules.latest(self._tick) or self._tick


def settlement_of(outcome: Outcome) -> Settlement:
    """Return what a survey that came to its end makes of its due time."""
    failed, unfetched = len(outcome.failed), len(outcome.unfetched)
    reasons = [f"{failed} of {len(outcome.plan.jobs)} jobs failed"] if failed else []
    reasons += [f"{unfetched} files could not be fetched"] if unfetched else []
    return Settlement(
        "failed" if reasons else "done",
        "; ".join(reasons) or None,
        measured=len(outcome.done),
        failed=failed,
        skipped=len(outcome.plan.jobs) - len(outcome.plan.todo),
    )


@dataclass
class _Lease:
    """Signs of life from a thread of its own; ``stop`` says that the run has to end."""

    schedules: Schedules
    due: Occurrence
    now: Clock
    pace: Pace
    stop: bool = False
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> _Lease:
        self._thread = threading.Thread(target=self._beat, name="lease", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _beat(self) -> None:
        while not self._over.wait(self.pace.beat):
            # A registry that cannot be asked now can be asked at the next beat.
            with suppress(StoreError):
                moment = self.now()
                self.schedules.renew(self.due, moment + timedelta(seconds=self.pace.lease))
                # What falls due while this run goes meets it going, also where nobody else looks.
                look(self.schedules, moment, self.pace.grace)
                self.stop = self.schedules.cancel_requested(self.due)


class _Watched:
    """A reporter that ends the scan when its due time has to stop."""

    def __init__(self, reporter: Reporter, lease: _Lease) -> None:
        self._reporter, self._lease = reporter, lease

    def fetching(self, file: RemoteFile, here: int, total: int | None) -> None:
        self._reporter.fetching(file, here, total)
        self._check()

    def planned(self, plan: Plan) -> None:
        self._reporter.planned(plan)
        self._check()

    def started(self, devices: Devices) -> None:
        self._reporter.started(devices)
        self._check()

    def warned(self, warning: str) -> None:
        self._reporter.warned(warning)
        self._check()

    def event(self, job: Job, event: Event) -> None:
        self._reporter.event(job, event)
        self._check()

    def _check(self) -> None:
        if self._lease.stop:
            raise _Stopped


def _said(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
