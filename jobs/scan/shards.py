"""Which stretches of a job's batches are still to be measured, and how they are shared out.

Parts meet between batch scores, and every part is measured with the job's own micro-batch and
thread count: what several workers give is what one would have given, bit for bit on the same kind
of device.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from catalog.store.records import Span
from jobs.runners.task import Part

#: Seconds a part should last at least: every part loads the network again.
LEAST_SECONDS = 60.0


def missing(done: Sequence[Span]) -> list[Part]:
    """Return the stretches that no durable batch covers, the open end included.

    Parameters
    ----------
    done : sequence of Span
        What is durable, in order, no two of them touching.
    """
    parts = []
    batch, position = 0, 0
    for span in done:
        if span.first > batch:
            parts.append(Part(batch, span.first, position))
        batch, position = span.stop, span.position
    return [*parts, Part(batch, None, position)]


def pieces(seconds: float, total: float, workers: int) -> int:
    """Return over how many workers a job is to be spread.

    One whose share of all the work keeps a worker longer than the others need for the rest would
    be waited for at the end.

    Parameters
    ----------
    seconds : float
        What the job may take.
    total : float
        What all jobs may take, this one included.
    workers : int
        How many workers there are.
    """
    fair = max(total / workers, LEAST_SECONDS) if workers > 1 else math.inf
    return min(workers, max(1, math.ceil(seconds / fair)))


def split(part: Part, count: int, batches: int) -> Iterator[Part]:
    """Yield a part as at most ``count`` parts of about equally many batches.

    Parameters
    ----------
    part : Part
        What is to be split.
    count : int
        Into how many.
    batches : int
        Whole batches of the job, if no image is broken.
    """
    stop = batches if part.stop is None else part.stop
    count = max(1, min(count, stop - part.first))
    bounds = [part.first + (stop - part.first) * k // count for k in range(count)]
    for number, first in enumerate(bounds):
        last = number == count - 1
        yield dataclasses.replace(
            part,
            first=first,
            stop=part.stop if last else bounds[number + 1],
            position=part.position if number == 0 else None,
        )
