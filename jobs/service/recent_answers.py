"""Answers and pages that took long, given again while newer ones are computed.

While a scan writes, a home holds something new at every request. An answer about thousands of
runs, or a page of one, then takes seconds each time: whoever asks gets the last one at once, with
its age, and the next one is begun. What is computed quickly is always of what the home holds.

All of it is for one event loop.
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Generic, TypeVar

from fastapi import Request

from analysis.answers.drift import is_duration
from jobs.service.libraries import load_libraries
from jobs.service.problems import Refusal
from jobs.service.queries import ended_with_client
from jobs.service.renderer import Renderer

Result = TypeVar("Result")

#: Seconds of the processor from which on an answer takes long.
LONG_SECONDS = 1.0

#: Seconds of the processor that a module takes at most, on average, that is loaded in its middle.
MODULE_SECONDS = 0.01

#: For how many times its seconds such an answer is given, and for how many seconds at most.
TIMES_GIVEN, MOST_AGE = 30.0, 120.0

#: Computations under way beside which no next one is begun before it is waited for.
MOST_BEGUN = 8

#: Bytes of all answers that are kept, and those that each counts for at least.
MOST_BYTES, LEAST_BYTES = 128_000_000, 100_000


def minute_of(options: Mapping[str, object]) -> str:
    """Return the present minute where options reach back from now by a duration; else nothing.

    Such an answer is another one each time, though the home holds nothing new.
    """
    since = options.get("since")
    return f"{datetime.now(UTC):%FT%R}" if isinstance(since, str) and is_duration(since) else ""


@dataclass(slots=True)
class _Answer(Generic[Result]):
    """An answer that was computed."""

    result: Result
    #: What the home held: another value, another answer.
    revision: str
    #: Seconds of the processor that it took, or half of those of the one before, if that is more.
    seconds: float
    #: Bytes that it counts for.
    size: int
    #: When it was last known to be of what the home holds, by the monotonic clock.
    current_at: float

    @property
    def age(self) -> float:
        return time.monotonic() - self.current_at

    @property
    def is_recent(self) -> bool:
        """Whether it may be given though the home holds something new."""
        lasts = min(TIMES_GIVEN * self.seconds, MOST_AGE)
        return self.seconds >= LONG_SECONDS and self.age <= lasts


@dataclass(slots=True, eq=False)
class _Computation:
    """An answer on its way, and who wants it."""

    future: Future[Any]
    task: asyncio.Task[_Answer[Any]]
    wanted_by: set[object] = field(default_factory=set)

    def leave(self, who: object) -> None:
        """Do without it; what nobody wants and has not begun is not computed."""
        self.wanted_by.discard(who)
        if not self.wanted_by:
            self.future.cancel()


class RecentAnswers:
    """Gives answers: of what a home holds, or recent ones where these take long.

    Parameters
    ----------
    renderer : Renderer
        Computes them.
    """

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._kept: OrderedDict[Hashable, _Answer[Any]] = OrderedDict()
        self._computed: dict[Hashable, _Computation] = {}

    async def answer(
        self,
        request: Request,
        compute: Callable[[], Result],
        asked: Hashable,
        revision: str,
        size: Callable[[Result], int],
    ) -> tuple[Result, float]:
        """Return an answer, and its age in seconds: zero if it is of what the home holds.

        Several who ask the same wait for one. It is not computed if all went away before its turn.

        Parameters
        ----------
        request : Request
            What asks.
        compute : callable
            Computes it in another process: a function of a module, its arguments bound.
        asked : hashable
            All that the answer depends on beside what the home holds.
        revision : str
            What the home holds: another value, another answer.
        size : callable
            Returns the bytes that a result takes.

        Raises
        ------
        SurveyError
            If there is no such answer.
        Refusal
            If too many wait, or it takes too long.
        """
        answer = self._kept.get(asked)
        while answer is None or not (answer.revision == revision or answer.is_recent):
            computation = self._computation(compute, asked, revision, size)
            computation.wanted_by.add(request)
            async with ended_with_client(request, partial(computation.leave, request)):
                answer = await self._renderer.result(computation.task)
        if asked in self._kept:
            self._kept.move_to_end(asked)
        if answer.revision == revision:
            answer.current_at = time.monotonic()
            return answer.result, 0.0
        # Where no other has room this one is given all the same.
        if asked in self._computed or len(self._computed) < MOST_BEGUN:
            with suppress(Refusal):
                self._computation(compute, asked, revision, size).wanted_by.add(self)
        return answer.result, answer.age

    def _computation(
        self,
        compute: Callable[[], Result],
        asked: Hashable,
        revision: str,
        size: Callable[[Result], int],
    ) -> _Computation:
        """Return what computes an answer now, begun if there is none."""
        now = self._computed.get(asked)
        if now is None or now.future.cancelled():
            future = self._renderer.begin(_timed, compute)
            task = asyncio.create_task(self._awaited(future, asked, revision, size))
            task.add_done_callback(_ended)
            now = self._computed[asked] = _Computation(future, task)
        return now

    async def _awaited(
        self,
        future: Future[tuple[Result, float]],
        asked: Hashable,
        revision: str,
        size: Callable[[Result], int],
    ) -> _Answer[Result]:
        began = time.monotonic()
        try:
            result, seconds = await asyncio.wrap_future(future)
        finally:
            # In the place of one that was cancelled there may be another.
            if self._computed[asked].future is future:
                del self._computed[asked]
        before = self._kept.pop(asked, None)
        # What reads the home that another answer has just read is quick for once.
        least = before.seconds / 2 if before else 0.0
        taken = max(size(result), LEAST_BYTES)
        answer = _Answer(result, revision, max(seconds, least), taken, began)
        if answer.size <= MOST_BYTES:
            self._kept[asked] = answer
            while sum(each.size for each in self._kept.values()) > MOST_BYTES:
                self._kept.popitem(last=False)
        return answer


def age_header(seconds: float) -> dict[str, str]:
    """Return the header of an answer's age, where it is not of what the home holds."""
    return {"Age": str(math.ceil(seconds))} if seconds else {}


def _ended(task: asyncio.Task[Any]) -> None:
    """Take note of how a computation ended: nobody may wait for it any more."""
    if not task.cancelled():
        task.exception()


def _timed(compute: Callable[[], Result]) -> tuple[Result, float]:
    """Return a result, and the seconds of the processor that it will take again."""
    load_libraries()
    loaded, began = len(sys.modules), time.process_time()
    result = compute()
    # Some are loaded in the middle, once: that is no reason to compute it less often.
    once = MODULE_SECONDS * (len(sys.modules) - loaded)
    return result, max(0.0, time.process_time() - began - once)
