"""Wrong tokens: after some from an address, none of its tokens are looked at for a while."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

#: Wrong tokens of one address within this time; and addresses that are remembered.
MOST_WRONG, WINDOW_SECONDS, _MOST_ADDRESSES = 10, 60.0, 4096


class WrongTokens:
    """The wrong tokens that addresses tried lately.

    Parameters
    ----------
    clock : callable
        Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tries: OrderedDict[str, list[float]] = OrderedDict()
        self._lock = Lock()

    def count(self, address: str) -> None:
        """Count a wrong token of an address."""
        now = self._clock()
        with self._lock:
            self._tries[address] = [*self._recent(address, now), now][-MOST_WRONG:]
            self._tries.move_to_end(address)
            while len(self._tries) > _MOST_ADDRESSES:
                self._tries.popitem(last=False)

    def seconds_to_wait(self, address: str) -> int:
        """Return for how many seconds the tokens of an address are not looked at."""
        now = self._clock()
        with self._lock:
            recent = self._recent(address, now)
        return math.ceil(recent[0] + WINDOW_SECONDS - now) if len(recent) >= MOST_WRONG else 0

    def _recent(self, address: str, now: float) -> list[float]:
        return [each for each in self._tries.get(address, ()) if each > now - WINDOW_SECONDS]
