"""Events in batches: all of them, in order, with heartbeats in between."""

import threading
import time

import pytest

from jobs.runners.events import Returned
from jobs.runners.heartbeat import WAITING, event_batches


def numbered(count):
    return [Returned("run", number) for number in range(count)]


def test_all_events_come_in_order():
    batches = list(event_batches(lambda heartbeat: iter(numbered(100))))
    assert [event for events, _ in batches for event in events] == numbered(100)
    assert all(1 <= len(events) <= WAITING for events, _ in batches)


def test_a_pause_is_bridged_by_the_heartbeat():
    go_on = threading.Event()

    def produce(heartbeat):
        heartbeat.beat()
        heartbeat.beat()
        go_on.wait(60)
        yield from numbered(1)

    batches = event_batches(produce, beat_seconds=0.01)
    first = next(events for events, count in batches if count == 2)
    assert first == ()
    go_on.set()
    assert [event for events, _ in batches for event in events] == numbered(1)


def test_an_error_comes_after_the_events_before_it():
    def produce(heartbeat):
        yield from numbered(2)
        raise ValueError("broken")

    seen = []

    def listen():
        for events, _ in event_batches(produce):
            seen.extend(events)

    with pytest.raises(ValueError, match="broken"):
        listen()
    assert seen == numbered(2)


def test_who_is_not_batches_does_not_run_ahead():
    produced = []

    def produce(heartbeat):
        for event in numbered(1000):
            produced.append(event)
            yield event

    batches = event_batches(produce, beat_seconds=0.01)
    next(batches)
    time.sleep(0.2)
    assert len(produced) <= 2 * WAITING + 2
    batches.close()
    before = threading.active_count()
    deadline = time.monotonic() + 30
    while any(thread.name == "measuring" for thread in threading.enumerate()):
        assert time.monotonic() < deadline, before
        time.sleep(0.05)
