"""Schedules, their due times (ticks), and which process runs which of them.

A due time is claimed by inserting its row: the database holds one row a schedule and due time, so
that any number of processes see it exactly once. A row that waits is then taken by one process,
and only one row of a schedule runs at a time. The process renews a lease while it runs; who finds
it gone takes the row over. Every method is one short transaction, and every moment comes from the
caller. When something is due, and what a policy makes of it, is not decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Select, delete, update
from sqlalchemy.exc import IntegrityError

from catalog.registry.database import Database, columns_of, portions, rowcount
from catalog.registry.tables import SCHEDULES, TICKS
from survey.errors import SettingsError, UnknownName

#: Which missed due times run: only the newest; each in order; none.
Missed = Literal["latest", "all", "skip"]

#: What a due time does while a former run goes: nothing; run after it; run in its place.
Overlap = Literal["skip", "queue", "replace"]

#: Where a due time stands: to be run; running; then settled in one of four ways.
OccurrenceState = Literal["waiting", "running", "done", "failed", "skipped", "replaced"]

OPEN: tuple[OccurrenceState, ...] = ("waiting", "running")


@dataclass(frozen=True, slots=True)
class ScheduleEntry:
    """A survey that is to be run again and again, as it is declared."""

    #: Its name.
    name: str
    #: The survey, as plain values.
    definition: dict[str, Any]
    #: The folder that relative paths in it start from.
    base: str
    #: The survey file it was read from.
    origin: str
    #: Its due times as five cron fields.
    cron: str
    #: The time zone they are meant in.
    timezone: str
    #: Which missed due times run.
    missed: Missed
    #: What a due time does while a former run goes.
    overlap: Overlap


@dataclass(frozen=True, slots=True)
class Schedule(ScheduleEntry):
    """A survey that is run again and again, and where it stands."""

    #: Its number.
    id: int
    #: When it was added.
    created_at: datetime
    #: Up to which moment every due time has a tick.
    settled_at: datetime
    #: Since when it is paused; None while it is not.
    paused_at: datetime | None


@dataclass(frozen=True, slots=True)
class Due:
    """A due time to be claimed: to be run, or skipped for a reason."""

    at: datetime
    skipped: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process that runs a tick."""

    host: str
    pid: int
    #: Its kernel and start time, which tell it from others of the same number.
    process: str


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of a tick."""

    state: OccurrenceState
    #: Why, in a sentence.
    reason: str | None = None
    #: Jobs measured, failed, and measured before.
    measured: int | None = None
    failed: int | None = None
    skipped: int | None = None


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A due time of a schedule, and what became of it."""

    #: Its number.
    id: int
    #: Its schedule.
    schedule_id: int
    #: When it was due.
    due_at: datetime
    #: Where it stands.
    state: OccurrenceState
    #: Why it waits, failed, was skipped or was replaced, in a sentence.
    reason: str | None
    #: When a process first saw it due.
    claimed_at: datetime
    #: How often a process took it.
    claim: int
    #: How often the process that ran it vanished.
    losses: int
    #: The process that runs or ran it.
    host: str | None
    pid: int | None
    process: str | None
    #: Until when other hosts take that process to be alive.
    lease_until: datetime | None
    #: When its run was asked to stop; None if it was not.
    cancel_at: datetime | None
    #: When its run began.
    started_at: datetime | None
    #: When it was settled.
    ended_at: datetime | None
    #: Jobs measured, failed, and measured before.
    measured: int | None
    failed: int | None
    skipped: int | None
    #: Seconds from its start to its end.
    seconds: float | None


class Schedules:
    """The schedules of a registry.

    Parameters
    ----------
    database : Database
        The registry's.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, entry: ScheduleEntry, now: datetime) -> Schedule:
        """Add a schedule; its first due time is the first after now.

        Raises
        ------
        SettingsError
            If there is one of that name.
        """
        values = {name: getattr(entry, name) for name in ScheduleEntry.__dataclass_fields__}
        new = self._database.insert(SCHEDULES).values(
            **values, created_at=now, settled_at=now, paused_at=None
        )
        # Its number, since how many rows an insert made is not reported by every driver.
        new_id = new.on_conflict_do_nothing(index_elements=["name"]).returning(SCHEDULES.c.id)
        with self._database.transaction() as connection:
            added = connection.execute(new_id).scalar_one_or_none()
        if added is None:
            raise SettingsError(
                f"there is a schedule {entry.name!r} already",
                hint=f"choose another name, or run `survey schedule remove {entry.name}` first",
            )
        return self.named(entry.name)

    def all(self) -> list[Schedule]:
        """Return the schedules by name."""
        with self._database.transaction() as connection:
            rows = connection.execute(columns_of(SCHEDULES, Schedule).order_by(SCHEDULES.c.name))
            return [Schedule(*row) for row in rows]

    def named(self, name: str) -> Schedule:
        """Return one schedule.

        Raises
        ------
        UnknownName
            If there is none of that name.
        """
        known = self.all()
        for schedule in known:
            if schedule.name == name:
                return schedule
        raise UnknownName("schedule", name, [schedule.name for schedule in known])

    def pause(self, schedule: Schedule, now: datetime) -> bool:
        """Pause a schedule; return whether it was active. A run under way goes on."""
        one = (SCHEDULES.c.id == schedule.id) & SCHEDULES.c.paused_at.is_(None)
        with self._database.transaction() as connection:
            return bool(rowcount(connection, update(SCHEDULES).where(one).values(paused_at=now)))

    def resume(self, schedule: Schedule, now: datetime) -> bool:
        """Resume a schedule, all due times until now settled; return whether it was paused."""
        one = (SCHEDULES.c.id == schedule.id) & SCHEDULES.c.paused_at.is_not(None)
        values = {"paused_at": None, "settled_at": now}
        with self._database.transaction() as connection:
            return bool(rowcount(connection, update(SCHEDULES).where(one).values(**values)))

    def settle_anew(self, schedule: Schedule, now: datetime) -> bool:
        """Let due times count from now where a clock ran ahead; each that has a tick keeps it.

        Parameters
        ----------
        schedule : Schedule
            As it was read.
        now : datetime
            Due times after this are to be claimed.

        Returns
        -------
        bool
            False if another process came first.
        """
        unchanged = (SCHEDULES.c.id == schedule.id) & (
            SCHEDULES.c.settled_at == schedule.settled_at
        )
        with self._database.transaction() as connection:
            moved = update(SCHEDULES).where(unchanged).values(settled_at=now)
            return bool(rowcount(connection, moved))

    def remove(self, schedule: Schedule) -> None:
        """Forget a schedule and its ticks; what they measured stays."""
        with self._database.transaction() as connection:
            connection.execute(delete(TICKS).where(TICKS.c.schedule_id == schedule.id))
            connection.execute(delete(SCHEDULES).where(SCHEDULES.c.id == schedule.id))

    def claim(
        self, schedule: Schedule, due: Sequence[Due], now: datetime, settled_at: datetime
    ) -> bool:
        """Claim what fell due up to a moment, all or nothing.

        Parameters
        ----------
        schedule : Schedule
            As it was read when ``due`` was worked out.
        due : sequence of Due
            Every due time after the schedule's ``settled_at`` that is to be kept.
        now : datetime
            When they were seen.
        settled_at : datetime
            Every due time up to here has been dealt with.

        Returns
        -------
        bool
            False if another process, or a pause, came first: nothing was changed then.
        """
        unchanged = (SCHEDULES.c.id == schedule.id) & SCHEDULES.c.paused_at.is_(None)
        unchanged &= SCHEDULES.c.settled_at == schedule.settled_at
        rows = [
            {"schedule_id": schedule.id, "due_at": one.at, "claimed_at": now}
            | {"state": "skipped" if one.skipped else "waiting", "reason": one.skipped}
            | {"ended_at": now if one.skipped else None, "claim": 0, "losses": 0}
            for one in due
        ]
        new = self._database.insert(TICKS).on_conflict_do_nothing(
            index_elements=["schedule_id", "due_at"]
        )
        with self._database.transaction() as connection:
            moved = update(SCHEDULES).where(unchanged).values(settled_at=settled_at)
            if not rowcount(connection, moved):
                return False
            for portion in portions(rows):
                connection.execute(new, portion)
        return True

    def occurrences(self, schedule: Schedule, most: int | None = None) -> list[Occurrence]:
        """Return a schedule's ticks, the newest first."""
        wanted = columns_of(TICKS, Occurrence).where(TICKS.c.schedule_id == schedule.id)
        return self._ticks(wanted.order_by(TICKS.c.due_at.desc()).limit(most))

    def open_occurrences(self, schedule: Schedule) -> list[Occurrence]:
        """Return a schedule's ticks that are not settled, the oldest first."""
        wanted = columns_of(TICKS, Occurrence).where(
            TICKS.c.schedule_id == schedule.id, TICKS.c.state.in_(OPEN)
        )
        return self._ticks(wanted.order_by(TICKS.c.due_at))

    def overlapping(self, tick: Occurrence) -> list[Occurrence]:
        """Return earlier ticks that were claimed, and not settled, when this one fell due."""
        going = TICKS.c.ended_at.is_(None) | (TICKS.c.ended_at > tick.due_at)
        wanted = columns_of(TICKS, Occurrence).where(
            TICKS.c.schedule_id == tick.schedule_id,
            TICKS.c.id != tick.id,
            TICKS.c.state != "skipped",
            TICKS.c.claimed_at < tick.due_at,
            going,
        )
        return self._ticks(wanted.order_by(TICKS.c.due_at))

    def latest(self, tick: Occurrence) -> Occurrence | None:
        """Return a tick as it stands now; None if its schedule was removed."""
        rows = self._ticks(columns_of(TICKS, Occurrence).where(TICKS.c.id == tick.id))
        return rows[0] if rows else None

    def take(
        self, tick: Occurrence, holder: ProcessIdentity, now: datetime, lease_until: datetime
    ) -> Occurrence | None:
        """Take a tick that waits, or whose holder is gone, and return it as it is then.

        None if its state is no longer that of ``tick``, or another tick of its schedule runs.
        """
        values: dict[str, Any] = {"state": "running", "claim": tick.claim + 1, "reason": None}
        values |= {"host": holder.host, "pid": holder.pid, "process": holder.process}
        values |= {"lease_until": lease_until, "started_at": tick.started_at or now}
        if tick.state == "running":
            values["losses"] = tick.losses + 1
        taken = update(TICKS).where(*_unchanged(tick), TICKS.c.state == tick.state)
        with self._database.transaction() as connection:
            try:
                if not rowcount(connection, taken.values(**values)):
                    return None
            except IntegrityError:
                # The index `one_running_a_schedule`: another process took another tick just now.
                connection.rollback()
                return None
        return self.latest(tick)

    def renew(self, tick: Occurrence, lease_until: datetime) -> bool:
        """Renew the lease of a tick that was taken; False if somebody else has it by now."""
        return self._change(tick, {"lease_until": lease_until}, "running")

    def release(self, tick: Occurrence, reason: str, *, begun: bool) -> bool:
        """Let a tick that was taken wait again, for whoever looks next."""
        values = {"state": "waiting", "reason": reason, "lease_until": None}
        return self._change(tick, values if begun else {**values, "started_at": None}, "running")

    def settle(self, tick: Occurrence, settlement: Settlement, now: datetime) -> bool:
        """Write down what became of a tick; False if somebody else has it by now."""
        values = {name: getattr(settlement, name) for name in Settlement.__dataclass_fields__}
        seconds = (now - tick.started_at).total_seconds() if tick.started_at else None
        values |= {"ended_at": now, "lease_until": None, "seconds": seconds}
        return self._change(tick, values, tick.state)

    def request_cancel(self, tick: Occurrence, now: datetime) -> bool:
        """Ask the process that runs a tick to stop; see ``cancel_requested``."""
        return self._change(tick, {"cancel_at": now}, "running")

    def cancel_requested(self, tick: Occurrence) -> bool:
        """Whether the run of a tick has to stop: a later one replaces it, or somebody took it over.

        For the process that runs it, to be asked every few seconds: it stops as on Ctrl-C, so that
        what is durable is kept, and settles the tick as ``replaced``.
        """
        now = self.latest(tick)
        return now is None or now.claim != tick.claim or now.cancel_at is not None

    def _change(self, tick: Occurrence, values: dict[str, Any], state: OccurrenceState) -> bool:
        changed = update(TICKS).where(*_unchanged(tick), TICKS.c.state == state)
        with self._database.transaction() as connection:
            return bool(rowcount(connection, changed.values(**values)))

    def _ticks(self, wanted: Select[Any]) -> list[Occurrence]:
        with self._database.transaction() as connection:
            return [Occurrence(*row) for row in connection.execute(wanted)]


def _unchanged(tick: Occurrence) -> tuple[Any, Any]:
    return TICKS.c.id == tick.id, TICKS.c.claim == tick.claim
