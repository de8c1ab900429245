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
    #: The part of it in which the driver works, from the workers' begin on.
    driver: float


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
        Whether every worker starts on a machine of its own.
    """
    begun = parts.planning + parts.plan * len(jobs) + parts.ray
    waiting = deque(jobs)
    first = begun + parts.worker + parts.further * (workers - 1) * (not alone)
    # What the driver is sent, and when: the end of a job, or else a batch; and by whom.
    sent: list[tuple[float, bool, int]] = []
    for worker in range(min(workers, len(waiting))):
        _, seconds, _ = waiting[0]
        # Their batches end at different times.
        _send(sent, parts, first + seconds * worker / workers, worker, waiting.popleft())
    free, busy = begun, 0.0
    while sent:
        awake = max(free, sent[0][0])
        ended, senders, batches = list[int](), set[int](), 0
        while sent and sent[0][0] <= awake:
            _, last, worker = heapq.heappop(sent)
            senders.add(worker)
            if last:
                ended.append(worker)
            else:
                batches += 1
        took = parts.round + parts.watch * workers + parts.job * len(ended)
        took += parts.take * len(senders) + parts.batch * batches
        free, busy = awake + took, busy + took
        for worker in ended[: len(waiting)]:
            _send(sent, parts, free + parts.between, worker, waiting.popleft())
    return Prediction(free + parts.closing, busy / (free - first))


def _send(
    sent: list[tuple[float, bool, int]],
    parts: Parts,
    at: float,
    worker: int,
    job: tuple[int, float, float],
) -> None:
    """Note what a worker sends that begins a job."""
    batches, seconds, loading = job
    for number in range(1, batches + 1):
        heapq.heappush(sent, (at + loading + number * (seconds + parts.beside), False, worker))
    heapq.heappush(sent, (at + loading + batches * (seconds + parts.beside), True, worker))
