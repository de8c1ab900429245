"""The run of what a process took: a survey under a lease, and what becomes of it.

Due times and submitted surveys are run alike. If the process dies, the next one that looks takes
over and continues the same run: batches that are durable are not measured again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, cast

from catalog.home import Home
from catalog.registry.claims import Claims, Row, Settlement
from catalog.registry.events import Events
from catalog.registry.policies import GRACE_SECONDS
from catalog.registry.rows import EventEntry
from catalog.store.records import BatchRecord
from jobs.runners.events import Event, Started
from jobs.schedules.process import is_gone, renewed_lease, this_process
from survey import ClusterError, StoreError, SurveyError
from survey.text import counted

if TYPE_CHECKING:
    from jobs.planning.definition import Definition
    from jobs.planning.plan import Plan
    from jobs.run import Outcome
    from jobs.runners.base import Runner
    from jobs.runners.options import Limits
    from jobs.scan.reporter import Reporter
    from jobs.schedules.notices import Notice

#: Processes in a row that may die over one row while they measure, without a new batch.
MOST_LOSSES = 5

Clock = Callable[[], datetime]


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


@dataclass(frozen=True, slots=True)
class Ended(Generic[Row]):
    """A row that this process ran, or left waiting."""

    #: The row afterwards.
    row: Row
    #: Why it was left waiting; None if it was settled.
    left: SurveyError | None = None
    #: Whether it was left because another scan is writing to the home.
    busy: bool = False
    #: The outcome of its survey, where that came to an end.
    outcome: Outcome | None = None
    #: What to do about its survey, where that could not be run.
    hint: str | None = None


class _Stopped(BaseException):
    """A run has to stop: it was asked to, or another process took it over.

    As an interruption, that is no error.
    """


@dataclass(frozen=True, kw_only=True)
class ClaimedRun(Generic[Row]):
    """The run of a row that this process took.

    Parameters
    ----------
    home : Home
        The home.
    claims : Claims
        The rows that the row is one of.
    row : Claimed
        The row, as it was taken.
    title : str
        What its events call it.
    cause : str
        What tells its events from those of other runs.
    definition : callable
        Returns its survey.
    stopped : Settlement
        What becomes of it if it is asked to stop.
    now : callable
        The clock.
    pace : Pace
        How long things may take.
    meanwhile : callable
        Called with the moment at every renewal of the lease.
    """

    home: Home
    claims: Claims[Row]
    row: Row
    title: str
    cause: str
    definition: Callable[[], Definition]
    stopped: Settlement
    now: Clock
    pace: Pace
    meanwhile: Callable[[datetime], None] = lambda _: None

    def carry_out(
        self, runner: Runner, reporter: Reporter, *, offline: bool, limits: Limits | None
    ) -> Ended[Row]:
        """Run the survey, record its outcome, and the events that follow."""
        # Imported only when there is something to run: looking has to be quick.
        from catalog.open_home import reopen_home
        from jobs.run import run_survey
        from jobs.scan.interruption import interruptions_kept

        try:
            # Also while its events ask the store.
            with interruptions_kept():
                with renewed_lease(self._renew, self.pace.beat) as stop:
                    # An older home may lack the tables that events are recorded in.
                    reopen_home(self.home)
                    watching = cast("Reporter", _WatchingReporter(reporter, stop, self))
                    definition = self.definition()
                    outcome = run_survey(
                        self.home, definition, runner, watching, offline=offline, limits=limits
                    )
                # A stop that was asked for after the last job changes nothing; before the plan, it
                # held the jobs.
                held = outcome.cancelled or outcome.plan.held_as("cancelled")
                stopped = held and self.claims.cancel_requested(self.row)
                return self._settle(self.stopped if stopped else _settlement(outcome), outcome)
        except _Stopped:
            return self._settle(self.stopped)
        except KeyboardInterrupt:
            self.claims.release(self.row, "interrupted", begun=True)
            raise
        except (StoreError, ClusterError) as error:
            return self._leave(error)
        except SurveyError as error:
            return self._settle(Settlement("failed", error.message), hint=error.hint)
        except Exception as error:
            self._settle(Settlement("failed", f"{type(error).__name__}: {error}"))
            raise

    def _renew(self) -> bool:
        """Renew the lease; return whether the run may go on."""
        moment = self.now()
        self.claims.renew(self.row, moment + timedelta(seconds=self.pace.lease))
        self.meanwhile(moment)
        return not self.claims.cancel_requested(self.row)

    def planned(self, plan: Plan) -> None:
        """Record that results are stale, before any of them is measured again."""
        from jobs.schedules.notices import stale_notice

        if notice := stale_notice(plan):
            Events(self.claims.database).record(self._event(*notice))

    def reported(self, event: Event) -> None:
        """Count this process as one that dies of the survey, from a network until a batch.

        Elsewhere it would be killed for another reason, as a service is that is started anew.
        """
        losses = self.row.losses + 1 if isinstance(event, Started) else 0
        self.claims.set_losses(self.row, losses)

    def _settle(
        self, settlement: Settlement, outcome: Outcome | None = None, hint: str | None = None
    ) -> Ended[Row]:
        events = self._events(settlement) if settlement.state in ("done", "failed") else []
        self.claims.settle(self.row, settlement, self.now(), events)
        return Ended(self._latest(), outcome=outcome, hint=hint)

    def _events(self, settlement: Settlement) -> Sequence[EventEntry]:
        from jobs.schedules.notices import drift_notice, end_notice

        events = [self._event(*end_notice(self.title, settlement))]
        if moved := drift_notice(self.home, self.row.started_at):
            events.append(self._event(*moved))
        return events

    def _event(self, *notice: Any) -> EventEntry:
        return _event_of(self.title, self.cause, notice, self.now())

    def _leave(self, error: SurveyError) -> Ended[Row]:
        from catalog.store.writer_lock import writing_process

        if self.claims.cancel_requested(self.row):
            return self._settle(self.stopped)
        # Not the survey's fault: the store or the cluster may be there at the next look.
        busy = isinstance(error, StoreError) and writing_process(self.home) is not None
        self.claims.release(self.row, error.message, begun=not busy)
        return Ended(self._latest(), left=error, busy=busy)

    def _latest(self) -> Row:
        return self.claims.latest(self.row) or self.row


def take(claims: Claims[Row], row: Row, now: datetime, pace: Pace) -> Row | None:
    """Take a row for this process; None if another one came first."""
    return claims.take(row, this_process(), now, now + timedelta(seconds=pace.lease))


def abandoned(
    claims: Claims[Row],
    row: Row,
    now: datetime,
    stopped: Settlement,
    named: Callable[[], tuple[str, str]],
) -> bool:
    """Return whether the process of a running row is gone and another one may take it.

    Rows that were asked to stop, or over which too many processes died, are settled instead;
    ``named`` returns title and cause of their events.
    """
    if not is_gone(row, now):
        return False
    if row.cancel_at is not None:
        claims.settle(row, stopped, now)
        return False
    if row.losses >= MOST_LOSSES:
        reason = f"{MOST_LOSSES} processes died over it, the last on {row.host}"
        failed, (title, cause) = Settlement("failed", reason), named()
        # Imported only where somebody is to notice something: looking has to be quick.
        from jobs.schedules.notices import end_notice

        claims.settle(row, failed, now, [_event_of(title, cause, end_notice(title, failed), now)])
        return False
    return True


def _event_of(title: str, cause: str, notice: Notice, moment: datetime) -> EventEntry:
    kind, sentence, detail = notice
    return EventEntry(kind, cause, sentence, {"survey": title, **detail}, moment)


def _settlement(outcome: Outcome) -> Settlement:
    """Return the settlement of a row whose survey came to its end."""
    failed, unfetched = len(outcome.failed), len(outcome.unfetched)
    parked = len(outcome.parked)
    cancelled = len(outcome.cancelled) + len(outcome.plan.held_as("cancelled"))
    reasons = [f"{failed} of {len(outcome.plan.jobs)} jobs failed"] if failed else []
    reasons += [f"{counted(parked, 'job is', 'jobs are')} parked"] if parked else []
    reasons += [f"{unfetched} files could not be fetched"] if unfetched else []
    # Somebody cancelled them, perhaps for another survey: that is no failure.
    held = [f"{counted(cancelled, 'job is', 'jobs are')} cancelled"] if cancelled else []
    return Settlement(
        "failed" if reasons else "done",
        "; ".join(reasons + held) or None,
        measured=len(outcome.done),
        failed=failed,
        skipped=len(outcome.plan.done),
    )


class _WatchingReporter:
    """Passes reports on, to the run too, and ends the scan that has to stop."""

    def __init__(self, reporter: Reporter, stop: threading.Event, run: ClaimedRun[Any]) -> None:
        self._reporter, self._stop, self._run = reporter, stop, run
        #: The events that the run waits for: the first of each.
        self._awaited: list[type] = [Started, BatchRecord]

    def __getattr__(self, name: str) -> Callable[..., None]:
        def report(*values: Any) -> None:
            getattr(self._reporter, name)(*values)
            if name == "planned":
                self._run.planned(values[0])
            elif name == "event" and type(values[1]) in self._awaited:
                self._awaited.remove(type(values[1]))
                self._run.reported(values[1])
            if self._stop.is_set():
                raise _Stopped("it was asked to stop")

        return report
