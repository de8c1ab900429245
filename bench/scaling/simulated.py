"""A scan's time from its parts: workers that sleep, and a driver that serves them in rounds."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from bench.scaling.parts import Parts


@dataclass(frozen=True, slots=True)
class Prediction:
    """A scan that did not take place."""

    #: Seconds from its begin to its end.
    seconds: float
    #: Seconds until every worker has begun.
    start: float
    #: The part of the time between, in which the driver works.
    driver: float
    #: The part of the workers' time between, in which they measure.
    measuring: float


def predicted(
    parts: Parts, workers: int, jobs: Sequence[tuple[int, float, float]], *, alone: bool = False
) -> Prediction:
    """Return how a scan goes.

    Parameters
    ----------
    parts : Parts
        What its parts take.
    workers : int
        How many there are.
    jobs : sequence of (int, float, float)
        Batches of each job, in the order they are given out, seconds of a batch, and of loading.
    alone : bool
        Whether every worker starts on a machine of its own, and so all of them at once.
    """
    begun = parts.planning + parts.plan * len(jobs) + parts.ray
    waiting = deque(jobs)
    ready = [begun + parts.worker + parts.further * place * (not alone) for place in range(workers)]
    # What the driver is sent, and when: the end of a job, or else a batch.
    sent: list[tuple[float, bool]] = []
    for at in ready[: len(waiting)]:
        _send(sent, parts, at, waiting.popleft())
    free, busy = begun, 0.0
    while sent:
        awake = max(free, sent[0][0])
        ends = batches = 0
        while sent and sent[0][0] <= awake:
            last = heapq.heappop(sent)[1]
            ends, batches = ends + last, batches + (not last)
        took = parts.round + parts.watch * workers + parts.job * ends + parts.batch * batches
        free, busy = awake + took, busy + took
        for _ in range(min(ends, len(waiting))):
            _send(sent, parts, free + parts.between, waiting.popleft())
    measuring = sum(batches * seconds for batches, seconds, _ in jobs)
    open_for = free - begun - parts.worker
    return Prediction(
        free + parts.closing, ready[-1], busy / open_for, measuring / workers / open_for
    )


def _send(
    sent: list[tuple[float, bool]], parts: Parts, at: float, job: tuple[int, float, float]
) -> None:
    """Note what a worker sends that begins a job."""
    batches, seconds, loading = job
    for number in range(1, batches + 1):
        heapq.heappush(sent, (at + loading + number * (seconds + parts.beside), False))
    heapq.heappush(sent, (at + loading + batches * (seconds + parts.beside), True))
