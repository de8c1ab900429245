"""Running what is due: each due time once, by whichever process looks first. Start here.

``tick`` claims the due times that have passed and runs their surveys one after another. Any number
of processes may call it at any time, once (cron, systemd, Kubernetes) or in a loop. If a process
dies, the next one that looks takes over its due time and continues the same run: batches that are
durable are not measured again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.home import Home
from catalog.registry.claims import Settlement
from catalog.registry.policies import GRACE_SECONDS
from catalog.registry.registry import Registry
from catalog.registry.rows import Schedule, Tick
from catalog.registry.schedules import Schedules
from jobs.schedules.claimed_run import ClaimedRun, Clock, Ended, Pace, abandoned, take, utc_now
from jobs.schedules.cron import ORIGIN, by_policy, definition_of, due_until
from jobs.schedules.process import is_gone
from survey.errors import SettingsError, SurveyError

if TYPE_CHECKING:
    from jobs.planning.definition import Definition
    from jobs.runners.base import Runner
    from jobs.runners.options import Limits
    from jobs.scan.reporter import Reporter

#: A moment further ahead than this was recorded by a clock that was wrong.
AHEAD = timedelta(hours=1)

#: What becomes of a due time that was to stop when its process died.
_REPLACED = Settlement("replaced", "a later run took its place; its process is gone")


@dataclass(frozen=True, slots=True)
class Ran:
    """A tick that this process ran, or left waiting."""

    schedule: Schedule
    ended: Ended[Tick]

    @property
    def tick(self) -> Tick:
        """The tick afterwards."""
        return self.ended.row


def tick(  # noqa: PLR0913 - all but the first three have defaults
    home: Home,
    make_runner: Callable[[], Runner],
    reporter: Reporter,
    *,
    offline: bool = False,
    limits: Limits | None = None,
    now: Clock = utc_now,
    pace: Pace | None = None,
    most: int | None = None,
    allowed: Sequence[Path] = (),
    leave_refused: bool = False,
    passed: Collection[int] = (),
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
    most : int, optional
        How many to run at most; all by default.
    allowed : sequence of Path
        Folders below which the files lie that a schedule added over HTTP may name.
    leave_refused : bool
        Whether such a schedule that names others waits for the service, which may allow them;
        otherwise its due time fails.
    passed : collection of int
        Numbers of due times to leave out.

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
    ran, passed = list[Ran](), set(passed)
    with Registry(home) as registry:
        schedules = registry.schedules
        while len(ran) != most and (following := next_due(schedules, now(), pace.grace, passed)):
            schedule, due = following
            passed.add(due.id)
            survey = partial(_definition, schedule, allowed)
            if leave_refused and (refusal := _refusal(schedule, survey)):
                ran.append(Ran(schedule, Ended(due, refusal)))
                continue
            # Before the due time is taken: options that cannot be used leave it waiting.
            runner = make_runner()
            if taken := take(schedules, due, now(), pace):
                run = _run(home, schedules, schedule, taken, survey, now, pace)
                ended = run.carry_out(runner, reporter, offline=offline, limits=limits)
                ran.append(Ran(schedule, ended))
    return ran


def _definition(schedule: Schedule, allowed: Sequence[Path]) -> Definition:
    from jobs.planning.allowed_files import require_allowed

    definition = definition_of(schedule)
    # Links, and the folders that are allowed, may have changed since it was added.
    return require_allowed(definition, allowed) if schedule.origin == ORIGIN else definition


def _refusal(schedule: Schedule, survey: Callable[[], Definition]) -> SurveyError | None:
    """Return why this process may not run a schedule that was added over HTTP."""
    try:
        if schedule.origin == ORIGIN:
            survey()
    except SurveyError as error:
        return SettingsError(
            error.message, hint="`survey serve` runs it, or a tick with the --allow of the service"
        )
    return None


def _run(
    home: Home,
    schedules: Schedules,
    schedule: Schedule,
    taken: Tick,
    survey: Callable[[], Definition],
    now: Clock,
    pace: Pace,
) -> ClaimedRun[Tick]:
    def look_again(moment: datetime) -> None:
        # What falls due during this run overlaps with it, also if no other process looks.
        look(schedules, moment, pace.grace)

    title, cause = _named(schedule, taken)
    return ClaimedRun(
        home=home,
        claims=schedules,
        row=taken,
        title=title,
        cause=cause,
        definition=survey,
        stopped=Settlement("replaced", "a later run took its place"),
        now=now,
        pace=pace,
        meanwhile=look_again,
    )


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
    # A tick that was taken before keeps its place.
    open_ticks = schedules.open_ticks(schedule)
    waiting = [each for each in open_ticks if each.state == "waiting" and not each.claim]
    # What was missed together was claimed together, and does not overlap.
    first = schedules.first_claim(schedule, waiting[0].due_at) if waiting else None
    for later in waiting:
        if first is None or later.due_at <= first:
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


def next_due(
    schedules: Schedules, now: datetime, grace_seconds: float, passed: Collection[int] = ()
) -> tuple[Schedule, Tick] | None:
    """Look what is due; return what has waited longest, of what this process may take.

    Parameters
    ----------
    schedules : Schedules
        The schedules.
    now : datetime
        The moment.
    grace_seconds : float
        How late a due time may be seen and still not count as missed.
    passed : collection of int
        Numbers of ticks to leave out.
    """
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
        named = partial(_named, schedule, candidate)
        if abandoned(schedules, candidate, now, _REPLACED, named):
            return candidate
        if not is_gone(candidate, now):
            return None
    return None


def _named(schedule: Schedule, due: Tick) -> tuple[str, str]:
    """Return what the events of a due time call it, and what tells them from those of others."""
    return schedule.name, f"schedule {schedule.name}, due {_utc(due.due_at)}"


def _utc(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
