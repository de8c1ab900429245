"""Signs of life: a worker's events in bundles, and how far it is in between.

Measuring has a thread of its own, so that a worker can say that it goes on in the middle of a
batch, which may take minutes. The pulse counts what was done, not that somebody is there: a worker
that hangs keeps silent about it.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jobs.runners.events import Event

#: Seconds of silence after which a worker says how far it is.
BEAT_SECONDS = 5.0

#: Events that wait for the next bundle: bounds a worker's memory when the store is slow.
WAITING = 64


@dataclass(slots=True)
class Pulse:
    """Counts what a worker did: forward passes, and images read on the way to its first one."""

    count: int = 0

    def beat(self) -> None:
        """Count one more."""
        self.count += 1


@dataclass(frozen=True, slots=True)
class Bundle:
    """What a worker says at once."""

    #: Events, in order; none where it only says that it goes on.
    events: tuple[Event, ...]
    #: How far it is.
    pulse: int


class _End:
    """What the measuring thread leaves behind: that it ended, and why."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def bundles(
    say: Callable[[Pulse], Iterator[Event]], beat_seconds: float = BEAT_SECONDS
) -> Iterator[Bundle]:
    """Yield what is said, in bundles, and a bundle without events after each silence.

    Parameters
    ----------
    say : callable
        Gives the events, and beats the pulse it is handed. It runs in a thread of its own.
    beat_seconds : float
        How long a silence may last.
    """
    pulse = Pulse()
    said: queue.Queue[Event | _End] = queue.Queue(WAITING)
    given_up = threading.Event()
    speaker = threading.Thread(
        target=_speak, args=(say, pulse, said, given_up), name="measuring", daemon=True
    )
    speaker.start()
    try:
        yield from _gathered(said, pulse, beat_seconds)
    finally:
        given_up.set()


def _gathered(
    said: queue.Queue[Event | _End], pulse: Pulse, beat_seconds: float
) -> Iterator[Bundle]:
    end: _End | None = None
    while end is None:
        events: list[Event] = []
        with contextlib.suppress(queue.Empty):
            item = said.get(timeout=beat_seconds)
            while not isinstance(item, _End):
                events.append(item)
                if len(events) == WAITING:
                    break
                item = said.get_nowait()
            else:
                end = item
        if events or end is None:
            yield Bundle(tuple(events), pulse.count)
    if end.error is not None:
        raise end.error


def _speak(
    say: Callable[[Pulse], Iterator[Event]],
    pulse: Pulse,
    said: queue.Queue[Event | _End],
    given_up: threading.Event,
) -> None:
    end = _End()
    try:
        for event in say(pulse):
            _put(said, event, given_up)
            if given_up.is_set():
                return
    except BaseException as error:  # noqa: BLE001 - handed to the thread that asked
        end = _End(error)
    _put(said, end, given_up)


def _put(said: queue.Queue[Event | _End], item: Event | _End, given_up: threading.Event) -> None:
    """Wait for room, but not for a reader who has gone."""
    while not given_up.is_set():
        try:
            said.put(item, timeout=1.0)
        except queue.Full:
            continue
        return
