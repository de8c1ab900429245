"""Deliveries of events: each at least once, at little cost, whatever the clock says."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert

from catalog.home import Home
from catalog.registry import events as module
from catalog.registry.registry import Registry
from catalog.registry.rows import Delivery, EventEntry, EventRow
from catalog.registry.tables import DELIVERIES, EVENTS

NOW, HOUR = datetime(2026, 11, 2, 8, 30, tzinfo=UTC), timedelta(hours=1)


@pytest.fixture
def registry(home: Home) -> Iterator[Registry]:
    with Registry(home) as registry:
        registry.events.add_receivers(["a", "drift"])
        yield registry


def happened(registry: Registry, cause: str) -> None:
    registry.events.record(EventEntry("finished", cause, "done", {}, NOW))


def due(registry: Registry, now: datetime = NOW) -> list[tuple[EventRow, Delivery]]:
    return registry.events.due("a", ["finished"], now, HOUR)


def deliveries(registry: Registry) -> list[Delivery]:
    database = registry.events.database
    return database.rows(Delivery, DELIVERIES, order=[DELIVERIES.c.event_id])


def test_what_was_accepted_is_forgotten_and_sent_once(registry, monkeypatch):
    monkeypatch.setattr(module, "_LATE_NUMBERS", 2)
    taken = []
    for number in range(20):
        happened(registry, f"run {number}")
        assert registry.events.due("drift", ["drift"], NOW, HOUR) == []
        for event, delivery in due(registry):
            taken.append(event.cause)
            if event.cause == "run 3":
                registry.events.refused(delivery, "it answered 500", None)
            else:
                registry.events.accepted(delivery, NOW)
    assert taken == [f"run {number}" for number in range(20)]
    # The newest, and the one that was given up.
    assert len(deliveries(registry)) <= 5
    assert [each.error for each in deliveries(registry) if not each.delivered_at] == [
        "it answered 500"
    ]


def test_an_event_that_appears_after_a_later_one_is_sent(registry):
    def appears(number: int) -> None:
        values = {"number": number, "id": str(number), "kind": "finished", "cause": str(number)}
        values |= {"title": "", "detail": {}, "happened_at": NOW}
        with registry.events.database.transaction() as connection:
            connection.execute(insert(EVENTS).values(**values))

    for number in (5000, 4500):
        appears(number)
        ((event, delivery),) = due(registry)
        assert event.number == number
        registry.events.accepted(delivery, NOW)


def test_a_look_that_finds_nothing_waits_for_no_writer(home, registry):
    happened(registry, "run 1")
    registry.events.accepted(due(registry)[0][1], NOW)
    with Registry(home) as other, other.events.database.writing(EVENTS):
        assert due(registry) == []


def test_what_a_clock_that_was_ahead_put_off_is_sent_again(registry):
    happened(registry, "run 1")
    ((_, delivery),) = due(registry)
    registry.events.refused(delivery, "it answered 500", NOW + timedelta(minutes=50))
    assert due(registry) == []
    registry.events.refused(delivery, "it answered 500", NOW + timedelta(days=400))
    assert len(due(registry)) == 1
