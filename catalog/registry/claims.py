"""Rows that one process at a time takes and runs: due times, and submitted surveys.

A row that waits is taken by one process. It renews a lease while it runs; another process takes the
row over when the lease has ended. Every method is one short transaction, and every moment comes
from the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic, TypeVar

from sqlalchemy import ColumnElement, Table, Update, update
from sqlalchemy.exc import IntegrityError

from catalog.registry.database import Database, values_of
from catalog.registry.events import Events
from catalog.registry.rows import Claimed, EventEntry, SubmissionState, TickState

Row = TypeVar("Row", bound=Claimed)


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process that runs what it took."""

    host: str
    pid: int
    #: Its kernel and start time, which other processes of the same number do not have.
    process: str


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of a row."""

    state: TickState | SubmissionState
    #: Why, in a sentence.
    reason: str | None = None
    #: Jobs measured, failed, and measured before.
    measured: int | None = None
    failed: int | None = None
    skipped: int | None = None


@dataclass(frozen=True, slots=True)
class Claims(Generic[Row]):
    """The rows of a table that processes take."""

    table: ClassVar[Table]
    #: The dataclass of a row.
    row: ClassVar[type[Any]]
    #: The state of a row that waits.
    waiting: ClassVar[str]

    #: The registry's.
    database: Database

    def latest(self, row: Row) -> Row | None:
        """Return a row as it stands now; None if it was removed."""
        return next(iter(self._rows(self.table.c.id == row.id, order=[self.table.c.id])), None)

    def take(
        self, row: Row, holder: ProcessIdentity, now: datetime, lease_until: datetime
    ) -> Row | None:
        """Take a row that waits, or whose holder is gone, and return it as it is then.

        None if its state is no longer the given one, or, of a due time, another one of its schedule
        runs.
        """
        values: dict[str, Any] = {"state": "running", "claim": row.claim + 1, "reason": None}
        values |= values_of(holder, ProcessIdentity)
        values |= {"lease_until": lease_until, "started_at": row.started_at or now}
        taken = _taken(self.table, row, _state(row))
        with self.database.transaction() as connection:
            try:
                if not connection.execute(taken.values(**values)).rowcount:
                    return None
            except IntegrityError:
                # The index `one_running_a_schedule`: another process took another one just now.
                connection.rollback()
                return None
        return self.latest(row)

    def renew(self, row: Row, lease_until: datetime) -> bool:
        """Renew the lease of a taken row; False if another process has it by now."""
        return self._change(row, {"lease_until": lease_until}, "running")

    def set_losses(self, row: Row, losses: int) -> None:
        """Store how many processes in a row vanished over a taken row, if this one does too."""
        self._change(row, {"losses": losses}, "running")

    def release(self, row: Row, reason: str, *, begun: bool) -> bool:
        """Let a taken row wait again, for the next process that looks."""
        values: dict[str, Any] = {"state": self.waiting, "reason": reason, "lease_until": None}
        values["losses"] = row.losses
        if not begun:
            values["started_at"] = None
        return self._change(row, values, "running")

    def leave(self, row: Row, reason: str) -> bool:
        """Let a row that waits, or whose holder is gone, wait for another process, and say why."""
        values = {"state": self.waiting, "reason": reason, "lease_until": None}
        return self._change(row, values, _state(row))

    def settle(
        self, row: Row, settlement: Settlement, now: datetime, events: Sequence[EventEntry] = ()
    ) -> bool:
        """Store what became of a row, with the events that follow, all or nothing.

        False if another process has it by now.
        """
        seconds = (now - row.started_at).total_seconds() if row.started_at else None
        values = {"ended_at": now, "lease_until": None, "seconds": seconds, "losses": row.losses}
        values |= values_of(settlement, Settlement)
        settled = _taken(self.table, row, _state(row)).values(**values)
        with self.database.transaction() as connection:
            if not connection.execute(settled).rowcount:
                return False
            Events(self.database).insert(connection, events)
            return True

    def request_cancel(self, row: Row, now: datetime) -> bool:
        """Ask the process that runs a row to stop; see ``cancel_requested``."""
        return self._change(row, {"cancel_at": now}, "running")

    def cancel_requested(self, row: Row) -> bool:
        """Return whether a row's run must stop: it was asked to, or another process has the row.

        For the process that runs it, to be asked every few seconds: it stops as on Ctrl-C, so that
        what is durable is kept, and settles the row.
        """
        now = self.latest(row)
        return now is None or now.claim != row.claim or now.cancel_at is not None

    def _change(self, row: Row, values: dict[str, Any], state: str) -> bool:
        return self._changes(_taken(self.table, row, state).values(**values))

    def _changes(self, statement: Update) -> bool:
        with self.database.transaction() as connection:
            return bool(connection.execute(statement).rowcount)

    def _rows(self, *conditions: ColumnElement[bool], order: Sequence[Any]) -> list[Row]:
        return self.database.rows(self.row, self.table, *conditions, order=order)


def _state(row: Claimed) -> str:
    state: str = row.state  # type: ignore[attr-defined]
    return state


def _taken(table: Table, row: Claimed, state: str) -> Update:
    """Return an update of a row in a state, as far as nobody took it since it was read."""
    return update(table).where(
        table.c.id == row.id, table.c.claim == row.claim, table.c.state == state
    )
