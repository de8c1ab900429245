"""A worker's events in batches, each with a heartbeat: how many steps the worker has made.

Measuring has a thread of its own, so that a worker can report its heartbeat in the middle of a
batch, which may take minutes. The heartbeat counts steps, not seconds: it stands still when the
worker hangs.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jobs.runners.events import Event

#: Seconds without an event after which a worker reports its heartbeat alone.
BEAT_SECONDS = 5.0

#: Events that wait for the next batch: bounds a worker's memory when the store is slow.
WAITING = 64

#: Events in order, none where nothing happened but time, and the heartbeat.
EventBatch = tuple[tuple[Event, ...], int]


@dataclass(slots=True)
class Heartbeat:
    """Counts a worker's steps: forward passes, and images read before the first one."""

    count: int = 0

    def beat(self) -> None:
        """Count one more step."""
        self.count += 1


#: Events, and at the end why the measuring thread ended: an error, or None.
_Queue = queue.Queue[Event | BaseException | None]


def event_batches(
    produce: Callable[[Heartbeat], Iterator[Event]], beat_seconds: float = BEAT_SECONDS
) -> Iterator[EventBatch]:
    """Yield events in batches, and a batch without events after each pause.

    Parameters
    ----------
    produce : callable
        Yields the events and beats the heartbeat; runs in a thread of its own.
    beat_seconds : float
        The longest time between two batches.
    """
    heartbeat, events, abandoned = Heartbeat(), _Queue(WAITING), threading.Event()
    thread = threading.Thread(
        target=_produce, args=(produce, heartbeat, events, abandoned), name="measuring", daemon=True
    )
    thread.start()
    try:
        yield from _gathered(events, heartbeat, beat_seconds)
    finally:
        abandoned.set()


def _gathered(events: _Queue, heartbeat: Heartbeat, beat_seconds: float) -> Iterator[EventBatch]:
    ended, error = False, None
    while not ended:
        batch: list[Event] = []
        with contextlib.suppress(queue.Empty):
            item = events.get(timeout=beat_seconds)
            while item is not None and not isinstance(item, BaseException):
                batch.append(item)
                if len(batch) == WAITING:
                    break
                item = events.get_nowait()
            else:
                ended, error = True, item
        if batch or not ended:
            yield tuple(batch), heartbeat.count
    if error is not None:
        raise error


def _produce(
    produce: Callable[[Heartbeat], Iterator[Event]],
    heartbeat: Heartbeat,
    events: _Queue,
    abandoned: threading.Event,
) -> None:
    end: BaseException | None = None
    try:
        for event in produce(heartbeat):
            _put(events, event, abandoned)
            if abandoned.is_set():
                return
    except BaseException as error:  # noqa: BLE001 - raised again in the thread that reads
        end = error
    _put(events, end, abandoned)


def _put(events: _Queue, item: Event | BaseException | None, abandoned: threading.Event) -> None:
    """Wait for room, unless nobody reads any more."""
    while not abandoned.is_set():
        with contextlib.suppress(queue.Full):
            events.put(item, timeout=1.0)
            return
