"""Sending events: each receiver has a thread, and gets each event at least once."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from catalog.registry.events import Events
from catalog.registry.rows import Delivery, EventRow
from jobs.schedules.claimed_run import utc_now
from jobs.service.receivers import NotAccepted, Receiver
from survey.errors import StoreError

#: Seconds between two looks for events; the longest between two tries, which double; and how many
#: tries there are: over a week, as a wait is three quarters of that on average.
LOOK_SECONDS, LONGEST_SECONDS, MOST_TRIES = 1.0, 3600.0, 260

#: Seconds that a stop waits for what is being sent.
_STOP_SECONDS = 2.0

_LOG = logging.getLogger(__name__)


@contextmanager
def delivering(events: Events, receivers: Sequence[Receiver]) -> Iterator[None]:
    """Send events to receivers meanwhile."""
    events.add_receivers([each.key for each in receivers])
    over = threading.Event()
    threads = [
        threading.Thread(target=_send_until, args=(events, each, over), name=each.name, daemon=True)
        for each in receivers
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(_STOP_SECONDS)


def _send_until(events: Events, receiver: Receiver, over: threading.Event) -> None:
    longest = timedelta(seconds=LONGEST_SECONDS)
    while not over.wait(LOOK_SECONDS):
        try:
            for event, delivery in events.due(receiver.key, receiver.kinds, utc_now(), longest):
                if not over.is_set():
                    _send(events, receiver, event, delivery)
        except StoreError as error:
            # Tried again at the next look: at least once.
            _LOG.warning("%s: %s", receiver.name, error.message)


def _send(events: Events, receiver: Receiver, event: EventRow, delivery: Delivery) -> None:
    try:
        receiver.send(event)
    except NotAccepted as error:
        tries = delivery.attempts + 1
        again = tries < MOST_TRIES
        wait = min(LONGEST_SECONDS, 2.0**tries) * random.uniform(0.5, 1.0)
        events.refused(delivery, str(error), utc_now() + timedelta(seconds=wait) if again else None)
        outlook = f"again in {wait:.0f} s" if again else "given up"
        _LOG.warning("%s did not accept event %s: %s; %s", receiver.name, event.id, error, outlook)
    else:
        events.accepted(delivery, utc_now())
