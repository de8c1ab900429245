"""Events: notices of what happened, and their deliveries to webhooks and commands.

An event is recorded once, with an id of its own, and reaches each receiver at least once: a
delivery is over when the receiver accepted it, so that a process that dies in between sends it
again with the same id. A receiver gets the events after the one that was the last when it was first
named.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, func, insert, literal, select, update

from catalog.registry.database import Database, values_of
from catalog.registry.rows import Delivery, EventEntry, EventKind, EventRow
from catalog.registry.tables import DELIVERIES, EVENTS, RECEIVERS


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
        self, receiver: str, kinds: Collection[EventKind], now: datetime, most: int = 20
    ) -> list[tuple[EventRow, Delivery]]:
        """Return events that a receiver is to be sent now, the oldest first.

        Parameters
        ----------
        receiver : str
            Its key.
        kinds : collection of str
            The kinds of events that it gets.
        now : datetime
            The moment.
        most : int
            How many.
        """
        with self.database.transaction() as connection:
            connection.execute(_undelivered(receiver, kinds, now))
        ready = (DELIVERIES.c.receiver == receiver) & (DELIVERIES.c.next_at <= now)
        deliveries = self.database.rows(
            Delivery, DELIVERIES, ready, order=[DELIVERIES.c.next_at], most=most
        )
        ids = [each.event_id for each in deliveries]
        rows = self.database.rows(EventRow, EVENTS, EVENTS.c.id.in_(ids), order=[EVENTS.c.number])
        by_id = {each.event_id: each for each in deliveries}
        return [(event, by_id[event.id]) for event in rows]

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


def _undelivered(receiver: str, kinds: Collection[EventKind], now: datetime) -> Any:
    """Return the insert of deliveries that are not there yet."""
    at = and_(DELIVERIES.c.event_id == EVENTS.c.id, DELIVERIES.c.receiver == receiver)
    after = select(RECEIVERS.c.after).where(RECEIVERS.c.key == receiver).scalar_subquery()
    wanted = (
        select(
            EVENTS.c.id,
            literal(receiver),
            literal(0),
            literal(now, DELIVERIES.c.next_at.type),
        )
        .outerjoin(DELIVERIES, at)
        .where(DELIVERIES.c.event_id.is_(None), EVENTS.c.kind.in_(kinds), EVENTS.c.number > after)
    )
    names = ["event_id", "receiver", "attempts", "next_at"]
    return insert(DELIVERIES).from_select(names, wanted)
