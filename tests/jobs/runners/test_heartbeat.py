"""Bundles of events: all of them, in order, with signs of life in between."""

import threading
import time

import pytest

from jobs.runners.events import Returned
from jobs.runners.heartbeat import WAITING, bundles


def numbered(count):
    return [Returned("run", number) for number in range(count)]


def test_all_events_come_in_order():
    heard = list(bundles(lambda pulse: iter(numbered(100))))
    assert [event for bundle in heard for event in bundle.events] == numbered(100)
    assert all(1 <= len(bundle.events) <= WAITING for bundle in heard)


def test_a_silence_is_broken_by_the_pulse():
    go_on = threading.Event()

    def say(pulse):
        pulse.beat()
        pulse.beat()
        go_on.wait(60)
        yield from numbered(1)

    heard = bundles(say, beat_seconds=0.01)
    first = next(bundle for bundle in heard if bundle.pulse == 2)
    assert first.events == ()
    go_on.set()
    assert [event for bundle in heard for event in bundle.events] == numbered(1)


def test_an_error_comes_after_what_was_said_before():
    def say(pulse):
        yield from numbered(2)
        raise ValueError("broken")

    seen = []

    def listen():
        for bundle in bundles(say):
            seen.extend(bundle.events)

    with pytest.raises(ValueError, match="broken"):
        listen()
    assert seen == numbered(2)


def test_who_is_not_heard_does_not_run_ahead():
    said = []

    def say(pulse):
        for event in numbered(1000):
            said.append(event)
            yield event

    heard = bundles(say, beat_seconds=0.01)
    next(heard)
    time.sleep(0.2)
    assert len(said) <= 2 * WAITING + 2
    heard.close()
    before = threading.active_count()
    deadline = time.monotonic() + 30
    while any(thread.name == "measuring" for thread in threading.enumerate()):
        assert time.monotonic() < deadline, before
        time.sleep(0.05)
