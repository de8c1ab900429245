"""Running what is due: each due time once, by whichever process looks first. Start here.

``tick`` claims the due times that have passed and runs their surveys one after another. Any number
of processes may call it at any time, once (cron, systemd, Kubernetes) or in a loop. If a process
dies, the next one that looks takes over its due time and continues the same run: batches that are
durable are not measured again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

from catalog.home import Home
from catalog.registry.registry import Registry
from catalog.registry.rows import Schedule, Tick
from catalog.registry.schedules import Schedules, Settlement
from jobs.schedules.cron import GRACE_SECONDS, by_policy, definition_of, due_until
from jobs.schedules.process import is_gone, renewed_lease, this_process
from survey import ClusterError, StoreError, SurveyError

if TYPE_CHECKING:
    from jobs.run import Outcome
    from jobs.runners.base import Runner
    from jobs.runners.options import Limits
    from jobs.scan.reporter import Reporter

#: Processes that may die over one due time.
MOST_LOSSES = 5

#: A moment further ahead than this was recorded by a clock that was wrong.
AHEAD = timedelta(hours=1)

Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Ran:
    """A tick that this process ran, or left waiting."""

    schedule: Schedule
    #: The tick afterwards.
    tick: Tick
    #: Why it was left waiting; None if it was settled.
    left: SurveyError | None = None
    #: Whether it was left because another scan is writing to the home.
    busy: bool = False
    #: The outcome of its survey, where that came to an end.
    outcome: Outcome | None = None
    #: What to do about its survey, where that could not be run.
    hint: str | None = None


def utc_now() -> datetime:
    """Return the present moment."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things may take, in seconds."""

    #: How late a due time may be seen and still not count as missed.
    grace: float = GRACE_SECONDS
    #: Time between two renewals of a lease.
    beat: float = 15.0
    #: Time from the last renewal until other hosts consider a process dead.
    lease: float = 90.0


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
    """Run every due time that no other process runs, until none is left.

    Parameters
    ----------
    home : Home
        The home with the schedules, where results go.
    make_runner : callable
        Makes the runner of each survey.
    reporter : Reporter
        Shows the progress.
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
        The ticks that were run, or left waiting.

    Raises
    ------
    StoreError
        If the registry cannot be used.
    """
    pace = pace or Pace()
    ran, passed = list[Ran](), set[int]()
    with Registry(home) as registry:
        schedules = registry.schedules
        while following := _next(schedules, passed, now(), pace.grace):
            schedule, due = following
            passed.add(due.id)
            # Before the due time is taken: options that cannot be used leave it waiting.
            runner = make_runner()
            moment = now()
            lease_until = moment + timedelta(seconds=pace.lease)
            if taken := schedules.take(due, this_process(), moment, lease_until):
                run = _Run(home, schedules, schedule, taken, now, pace)
                ran.append(run.carry_out(runner, reporter, offline=offline, limits=limits))
    return ran


def look(schedules: Schedules, now: datetime, grace_seconds: float = GRACE_SECONDS) -> None:
    """Claim the due times that have passed and apply each schedule's policies. Runs nothing."""
    for schedule in schedules.all():
        if schedule.paused_at is not None:
            continue
        if schedule.settled_at > now + AHEAD:
            # A clock was wrong and was put right. What ran meanwhile is not run again.
            schedules.settle_anew(schedule, now)
            continue
        times = due_until(schedule, now)
        if times:
            due = by_policy(times, schedule.missed, now, grace_seconds)
            schedules.claim(schedule, due, now, settled_at=times[-1])
        if schedule.overlap != "queue":
            _apply_overlap(schedules, schedule, now)


def _apply_overlap(schedules: Schedules, schedule: Schedule, now: datetime) -> None:
    for later in schedules.open_ticks(schedule):
        # A tick that was taken before keeps its place.
        if later.state != "waiting" or later.claim:
            continue
        for former in schedules.overlapping(later):
            if former.ended_at is not None and former.ended_at > now + AHEAD:
                continue
            if schedule.overlap == "skip":
                reason = f"the run due at {_utc(former.due_at)} had not ended"
                schedules.settle(later, Settlement("skipped", reason), now)
                break
            if former.state == "running" and former.cancel_at is None:
                schedules.request_cancel(former, now)
            elif former.state == "waiting":
                reason = f"the run due at {_utc(later.due_at)} took its place"
                schedules.settle(former, Settlement("replaced", reason), now)


def _next(
    schedules: Schedules, passed: set[int], now: datetime, grace_seconds: float
) -> tuple[Schedule, Tick] | None:
    """Look what is due; return what has waited longest, of what this process may take."""
    look(schedules, now, grace_seconds)
    candidates = [
        (schedule, candidate)
        for schedule in schedules.all()
        if schedule.paused_at is None
        and (candidate := _candidate(schedules, schedule, now)) is not None
        and candidate.id not in passed
    ]
    return min(candidates, key=lambda pair: pair[1].due_at, default=None)


def _candidate(schedules: Schedules, schedule: Schedule, now: datetime) -> Tick | None:
    """Return a schedule's oldest open tick, unless it runs; settle those given up."""
    for candidate in schedules.open_ticks(schedule):
        if candidate.state == "waiting":
            return candidate
        if not is_gone(candidate, now):
            return None
        if candidate.cancel_at is not None:
            reason = "a later run took its place; its process is gone"
            schedules.settle(candidate, Settlement("replaced", reason), now)
        elif candidate.losses + 1 >= MOST_LOSSES:
            reason = f"{MOST_LOSSES} processes died over it, the last on {candidate.host}"
            schedules.settle(candidate, Settlement("failed", reason), now)
        else:
            return candidate
    return None


class _Stopped(Exception):
    """A run has to stop: a later one replaces it, or another process took it over."""


@dataclass(frozen=True)
class _Run:
    """The run of a tick that this process took."""

    home: Home
    schedules: Schedules
    schedule: Schedule
    tick: Tick
    now: Clock
    pace: Pace

    def carry_out(
        self, runner: Runner, reporter: Reporter, *, offline: bool, limits: Limits | None
    ) -> Ran:
        """Run the survey and record its outcome."""
        # Imported only when there is something to run: looking has to be quick.
        from jobs.run import run_survey
        from jobs.scan.progress_file import ProgressFile

        try:
            with renewed_lease(self._renew, self.pace.beat) as stop:
                definition = definition_of(self.schedule)
                stopping = cast("Reporter", _StoppingReporter(reporter, stop))
                with ProgressFile(self.home, stopping) as passing:
                    outcome = run_survey(
                        self.home, definition, runner, passing, offline=offline, limits=limits
                    )
        except _Stopped:
            return self._settle(Settlement("replaced", "a later run took its place"))
        except KeyboardInterrupt:
            self.schedules.release(self.tick, "interrupted", begun=True)
            raise
        except (StoreError, ClusterError) as error:
            return self._leave(error)
        except SurveyError as error:
            return self._settle(Settlement("failed", error.message), hint=error.hint)
        except Exception as error:
            self._settle(Settlement("failed", f"{type(error).__name__}: {error}"))
            raise
        return self._settle(_settlement(outcome), outcome)

    def _renew(self) -> bool:
        """Renew the lease; return whether the run may go on."""
        moment = self.now()
        self.schedules.renew(self.tick, moment + timedelta(seconds=self.pace.lease))
        # What falls due during this run overlaps with it, also if no other process looks.
        look(self.schedules, moment, self.pace.grace)
        return not self.schedules.cancel_requested(self.tick)

    def _settle(
        self, settlement: Settlement, outcome: Outcome | None = None, hint: str | None = None
    ) -> Ran:
        self.schedules.settle(self.tick, settlement, self.now())
        return Ran(self.schedule, self._latest(), outcome=outcome, hint=hint)

    def _leave(self, error: SurveyError) -> Ran:
        from catalog.store.writer_lock import writing_process

        # Not the survey's fault: the store or the cluster may be there at the next look.
        busy = isinstance(error, StoreError) and writing_process(self.home) is not None
        self.schedules.release(self.tick, error.message, begun=not busy)
        return Ran(self.schedule, self._latest(), left=error, busy=busy)

    def _latest(self) -> Tick:
        return self.schedules.latest(self.tick) or self.tick


def _settlement(outcome: Outcome) -> Settlement:
    """Return the settlement of a tick whose survey came to its end."""
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


class _StoppingReporter:
    """Passes reports on, and ends the scan once it has to stop."""

    def __init__(self, reporter: Reporter, stop: threading.Event) -> None:
        self._reporter, self._stop = reporter, stop

    def __getattr__(self, name: str) -> Callable[..., None]:
        def report(*values: object) -> None:
            getattr(self._reporter, name)(*values)
            if self._stop.is_set():
                raise _Stopped("a later run takes its place")

        return report


def _utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
