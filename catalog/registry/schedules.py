"""Schedules, their due times, and which process runs which of them.

A due time is claimed by inserting its row: the database holds one row a schedule and due time, so
that any number of processes see it exactly once. A row that waits is then taken by one process (see
``catalog.registry.claims``), and only one row of a schedule runs at a time. When something is due,
and what follows, ``jobs.schedules`` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import ColumnElement, Table, Update, delete, select, update

from catalog.registry.claims import Claims
from catalog.registry.database import portions, values_of
from catalog.registry.rows import Schedule, ScheduleEntry, Tick
from catalog.registry.tables import SCHEDULES, TICKS
from survey.errors import SettingsError, UnknownName


@dataclass(frozen=True, slots=True)
class Due:
    """A due time to be claimed: to be run, or skipped for a reason."""

    at: datetime
    skipped: str | None = None


@dataclass(frozen=True, slots=True)
class Schedules(Claims[Tick]):
    """The schedules of a registry, and their due times."""

    table: ClassVar[Table] = TICKS
    row: ClassVar[type[Any]] = Tick
    waiting: ClassVar[str] = "waiting"

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

    def first_claim(self, schedule: Schedule, after: datetime) -> datetime | None:
        """Return when the first tick was claimed of those that had not ended at a moment."""
        first = select(TICKS.c.claimed_at).where(
            TICKS.c.schedule_id == schedule.id, TICKS.c.state != "skipped", _not_ended(after)
        )
        with self.database.transaction() as connection:
            return connection.execute(first.order_by(TICKS.c.claimed_at).limit(1)).scalar()

    def overlapping(self, tick: Tick) -> list[Tick]:
        """Return earlier ticks that were claimed, and not settled, when this one fell due."""
        return self._oldest_first(
            TICKS.c.schedule_id == tick.schedule_id,
            TICKS.c.id != tick.id,
            TICKS.c.state != "skipped",
            TICKS.c.claimed_at < tick.due_at,
            _not_ended(tick.due_at),
        )

    def _oldest_first(self, *conditions: ColumnElement[bool]) -> list[Tick]:
        return self._rows(*conditions, order=[TICKS.c.due_at])


def _not_ended(moment: datetime) -> ColumnElement[bool]:
    return TICKS.c.ended_at.is_(None) | (TICKS.c.ended_at > moment)


def _update(schedule: Schedule, condition: ColumnElement[bool]) -> Update:
    return update(SCHEDULES).where(SCHEDULES.c.id == schedule.id, condition)
