"""Schedules, their due times, and which process runs which of them.

A due time is claimed by inserting its row: the database holds one row a schedule and due time, so
that any number of processes see it exactly once. A row that waits is then taken by one process,
and only one row of a schedule runs at a time. The process renews a lease while it runs; another
one takes the row over when the lease has ended. Every method is one short transaction, and every
moment comes from the caller. When something is due, and what follows, ``jobs.schedules`` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Update, delete, update
from sqlalchemy.exc import IntegrityError

from catalog.registry.database import Database, portions, values_of
from catalog.registry.rows import Schedule, ScheduleEntry, Tick, TickState
from catalog.registry.tables import SCHEDULES, TICKS
from survey.errors import SettingsError, UnknownName


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
    #: Its kernel and start time, which other processes of the same number do not have.
    process: str


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of a tick."""

    state: TickState
    #: Why, in a sentence.
    reason: str | None = None
    #: Jobs measured, failed, and measured before.
    measured: int | None = None
    failed: int | None = None
    skipped: int | None = None


@dataclass(frozen=True, slots=True)
class Schedules:
    """The schedules of a registry."""

    #: The registry's.
    database: Database

    def add(self, entry: ScheduleEntry, now: datetime) -> Schedule:
        """Add a schedule; its first due time is the first after now.

        Raises
        ------
        SettingsError
            If there is one of that name.
        """
        new = self.database.insert(SCHEDULES).values(
            **values_of(entry, ScheduleEntry), created_at=now, settled_at=now
        )
        # Its number, since how many rows an insert made is not reported by every driver.
        new_id = new.on_conflict_do_nothing(index_elements=["name"]).returning(SCHEDULES.c.id)
        with self.database.transaction() as connection:
            added = connection.execute(new_id).scalar_one_or_none()
        if added is None:
            raise SettingsError(
                f"there is a schedule {entry.name!r} already",
                hint=f"choose another name, or run `survey schedule remove {entry.name}` first",
            )
        return self.named(entry.name)

    def all(self) -> list[Schedule]:
        """Return the schedules by name."""
        return self.database.rows(Schedule, SCHEDULES, order=[SCHEDULES.c.name])

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
        active = SCHEDULES.c.paused_at.is_(None)
        return self._changes(_update(schedule, active).values(paused_at=now))

    def resume(self, schedule: Schedule, now: datetime) -> bool:
        """Resume a schedule, all due times until now settled; return whether it was paused."""
        paused = SCHEDULES.c.paused_at.is_not(None)
        return self._changes(_update(schedule, paused).values(paused_at=None, settled_at=now))

    def settle_anew(self, schedule: Schedule, now: datetime) -> bool:
        """Let due times count from now where a clock ran ahead; False if another process did."""
        unchanged = SCHEDULES.c.settled_at == schedule.settled_at
        return self._changes(_update(schedule, unchanged).values(settled_at=now))

    def remove(self, schedule: Schedule) -> None:
        """Forget a schedule and its ticks; what they measured stays."""
        with self.database.transaction() as connection:
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
        unchanged = SCHEDULES.c.paused_at.is_(None) & (
            SCHEDULES.c.settled_at == schedule.settled_at
        )
        rows = [
            {"schedule_id": schedule.id, "due_at": one.at, "claimed_at": now}
            | {"state": "skipped" if one.skipped else "waiting", "reason": one.skipped}
            | {"ended_at": now if one.skipped else None, "claim": 0, "losses": 0}
            for one in due
        ]
        new = self.database.insert(TICKS).on_conflict_do_nothing(
            index_elements=["schedule_id", "due_at"]
        )
        with self.database.transaction() as connection:
            moved = _update(schedule, unchanged).values(settled_at=settled_at)
            if not connection.execute(moved).rowcount:
                return False
            for portion in portions(rows):
                connection.execute(new, portion)
        return True

    def ticks(self, schedule: Schedule, most: int | None = None) -> list[Tick]:
        """Return a schedule's ticks, the newest first."""
        scheduled, newest = TICKS.c.schedule_id == schedule.id, [TICKS.c.due_at.desc()]
        return self.database.rows(Tick, TICKS, scheduled, order=newest, most=most)

    def open_ticks(self, schedule: Schedule) -> list[Tick]:
        """Return a schedule's ticks that are not settled, the oldest first."""
        unsettled = TICKS.c.state.in_(("waiting", "running"))
        return self._oldest_first(TICKS.c.schedule_id == schedule.id, unsettled)

    def overlapping(self, tick: Tick) -> list[Tick]:
        """Return earlier ticks that were claimed, and not settled, when this one fell due."""
        return self._oldest_first(
            TICKS.c.schedule_id == tick.schedule_id,
            TICKS.c.id != tick.id,
            TICKS.c.state != "skipped",
            TICKS.c.claimed_at < tick.due_at,
            TICKS.c.ended_at.is_(None) | (TICKS.c.ended_at > tick.due_at),
        )

    def latest(self, tick: Tick) -> Tick | None:
        """Return a tick as it stands now; None if its schedule was removed."""
        return next(iter(self._oldest_first(TICKS.c.id == tick.id)), None)

    def take(
        self, tick: Tick, holder: ProcessIdentity, now: datetime, lease_until: datetime
    ) -> Tick | None:
        """Take a tick that waits, or whose holder is gone, and return it as it is then.

        None if its state is no longer the given one, or another one of its schedule runs.
        """
        values: dict[str, Any] = {"state": "running", "claim": tick.claim + 1, "reason": None}
        values |= values_of(holder, ProcessIdentity)
        values |= {"lease_until": lease_until, "started_at": tick.started_at or now}
        if tick.state == "running":
            values["losses"] = tick.losses + 1
        taken = _taken(tick, tick.state)
        with self.database.transaction() as connection:
            try:
                if not connection.execute(taken.values(**values)).rowcount:
                    return None
            except IntegrityError:
                # The index `one_running_a_schedule`: another process took another one just now.
                connection.rollback()
                return None
        return self.latest(tick)

    def renew(self, tick: Tick, lease_until: datetime) -> bool:
        """Renew the lease of a taken tick; False if another process has it by now."""
        return self._change(tick, {"lease_until": lease_until}, "running")

    def release(self, tick: Tick, reason: str, *, begun: bool) -> bool:
        """Let a taken tick wait again, for the next process that looks."""
        values: dict[str, Any] = {"state": "waiting", "reason": reason, "lease_until": None}
        if not begun:
            values["started_at"] = None
        return self._change(tick, values, "running")

    def settle(self, tick: Tick, settlement: Settlement, now: datetime) -> bool:
        """Store what became of a tick; False if another process has it by now."""
        seconds = (now - tick.started_at).total_seconds() if tick.started_at else None
        values = {"ended_at": now, "lease_until": None, "seconds": seconds}
        return self._change(tick, values_of(settlement, Settlement) | values, tick.state)

    def request_cancel(self, tick: Tick, now: datetime) -> bool:
        """Ask the process that runs a tick to stop; see ``cancel_requested``."""
        return self._change(tick, {"cancel_at": now}, "running")

    def cancel_requested(self, tick: Tick) -> bool:
        """Return whether a tick's run must stop: it is replaced, or was taken over.

        For the process that runs it, to be asked every few seconds: it stops as on Ctrl-C, so that
        what is durable is kept, and settles the tick as ``replaced``.
        """
        now = self.latest(tick)
        return now is None or now.claim != tick.claim or now.cancel_at is not None

    def _change(self, tick: Tick, values: dict[str, Any], state: TickState) -> bool:
        return self._changes(_taken(tick, state).values(**values))

    def _changes(self, statement: Update) -> bool:
        with self.database.transaction() as connection:
            return bool(connection.execute(statement).rowcount)

    def _oldest_first(self, *conditions: ColumnElement[bool]) -> list[Tick]:
        return self.database.rows(Tick, TICKS, *conditions, order=[TICKS.c.due_at])


def _update(schedule: Schedule, condition: ColumnElement[bool]) -> Update:
    return update(SCHEDULES).where(SCHEDULES.c.id == schedule.id, condition)


def _taken(tick: Tick, state: TickState) -> Update:
    """Return an update of a tick in a state, as far as nobody took it since it was read."""
    return update(TICKS).where(
        TICKS.c.id == tick.id, TICKS.c.claim == tick.claim, TICKS.c.state == state
    )
