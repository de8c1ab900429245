"""Events: notices of what happened, and their deliveries to webhooks and commands.

An event is recorded once, with an id of its own, and reaches each receiver at least once: a
delivery is over when the receiver accepted it, so that a process that dies in between sends it
again with the same id. A receiver gets the events after the one that was the last when it was first
named; from there it moves on, so that old events cost nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, literal, select, update

from catalog.registry.database import Database, values_of
from catalog.registry.rows import Delivery, EventEntry, EventKind, EventRow
from catalog.registry.tables import DELIVERIES, EVENTS, RECEIVERS

#: Newest numbers among which one may appear after a higher one: its transaction took longer.
_LATE_NUMBERS = 1_000

#: Events that a receiver is sent between two looks.
_MOST = 20


@dataclass(frozen=True, slots=True)
class Events:
    """The events of a registry."""

    #: The registry's.
    database: Database

    def record(self, event: EventEntry) -> None:
        """Record an event, unless there is one of its kind and cause."""
        with self.database.transaction() as connection:
            self.insert(connection, [event])

    def insert(self, connection: Connection, events: Sequence[EventEntry]) -> None:
        """Record events in a transaction of the caller's."""
        if events:
            new = self.database.insert(EVENTS).on_conflict_do_nothing(
                index_elements=["kind", "cause"]
            )
            rows = [{**values_of(each, EventEntry), "id": str(uuid.uuid4())} for each in events]
            connection.execute(new, rows)

    def latest(self, most: int) -> list[EventRow]:
        """Return so many of the newest events, the newest first."""
        return self.database.rows(EventRow, EVENTS, order=[EVENTS.c.number.desc()], most=most)

    def first_id(self) -> str | None:
        """Return the id of the oldest event, which stays the oldest: none is removed."""
        oldest = self.database.rows(EventRow, EVENTS, order=[EVENTS.c.number], most=1)
        return oldest[0].id if oldest else None

    def add_receivers(self, keys: Collection[str]) -> None:
        """Make receivers known; those that are new get the events from now on."""
        last = select(func.coalesce(func.max(EVENTS.c.number), 0)).scalar_subquery()
        with self.database.transaction() as connection:
            for key in keys:
                new = self.database.insert(RECEIVERS).values(key=key, after=last)
                connection.execute(new.on_conflict_do_nothing(index_elements=["key"]))

    def due(
        self,
        receiver: str,
        kinds: Collection[EventKind],
        now: datetime,
        longest: timedelta,
    ) -> list[tuple[EventRow, Delivery]]:
        """Return up to ``_MOST`` events that a receiver is to be sent now, the oldest first.

        Parameters
        ----------
        receiver : str
            Its key.
        kinds : collection of str
            The kinds of events that it gets.
        now : datetime
            The moment.
        longest : timedelta
            The longest time between two tries: what is to be tried later than that was put off by
            a clock that was ahead.
        """
        self._queue(receiver, kinds, now)
        next_at = DELIVERIES.c.next_at
        ready = (DELIVERIES.c.receiver == receiver) & ((next_at <= now) | (next_at > now + longest))
        deliveries = self.database.rows(Delivery, DELIVERIES, ready, order=[next_at], most=_MOST)
        ids = [each.event_id for each in deliveries]
        rows = self.database.rows(EventRow, EVENTS, EVENTS.c.id.in_(ids), order=[EVENTS.c.number])
        by_id = {each.event_id: each for each in deliveries}
        return [(event, by_id[event.id]) for event in rows]

    def _queue(self, receiver: str, kinds: Collection[EventKind], now: datetime) -> None:
        """Insert deliveries of the events that came since; written only if there is something."""
        newest = select(func.coalesce(func.max(EVENTS.c.number), 0)).scalar_subquery()
        known = select(RECEIVERS.c.after, newest).where(RECEIVERS.c.key == receiver)
        with self.database.transaction() as connection:
            for after, last in connection.execute(known).all():
                wanted = _undelivered(receiver, kinds, now, after)
                if connection.execute(wanted.limit(1)).first():
                    names = ["event_id", "receiver", "attempts", "next_at"]
                    connection.execute(insert(DELIVERIES).from_select(names, wanted))
                if last - after >= 2 * _LATE_NUMBERS:
                    _advance(connection, receiver, last - _LATE_NUMBERS)

    def accepted(self, delivery: Delivery, now: datetime) -> None:
        """Store that a receiver accepted an event."""
        self._tried(delivery, next_at=None, delivered_at=now, error=None)

    def refused(self, delivery: Delivery, error: str, next_at: datetime | None) -> None:
        """Store why a delivery failed, and when it is tried next; None if it never is."""
        self._tried(delivery, next_at=next_at, error=error)

    def _tried(self, delivery: Delivery, **values: Any) -> None:
        tried = update(DELIVERIES).where(
            DELIVERIES.c.event_id == delivery.event_id, DELIVERIES.c.receiver == delivery.receiver
        )
        with self.database.transaction() as connection:
            connection.execute(tried.values(attempts=delivery.attempts + 1, **values))


def _undelivered(receiver: str, kinds: Collection[EventKind], now: datetime, after: int) -> Any:
    """Return the selection of deliveries that are not there yet."""
    at = and_(DELIVERIES.c.event_id == EVENTS.c.id, DELIVERIES.c.receiver == receiver)
    moment = literal(now, DELIVERIES.c.next_at.type)
    return (
        select(EVENTS.c.id, literal(receiver), literal(0), moment)
        .outerjoin(DELIVERIES, at)
        .where(DELIVERIES.c.event_id.is_(None), EVENTS.c.kind.in_(kinds), EVENTS.c.number > after)
    )


def _advance(connection: Connection, receiver: str, number: int) -> None:
    """Look no more at events up to a number, and forget which of them a receiver accepted."""
    connection.execute(update(RECEIVERS).where(RECEIVERS.c.key == receiver).values(after=number))
    passed = DELIVERIES.c.event_id.in_(select(EVENTS.c.id).where(EVENTS.c.number <= number))
    accepted = (DELIVERIES.c.receiver == receiver) & DELIVERIES.c.delivered_at.is_not(None)
    connection.execute(delete(DELIVERIES).where(accepted, passed))
