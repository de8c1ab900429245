"""Shards: which batches of a job are still to be measured, and how workers share them.

Shards meet between batch scores, and every shard is measured with the job's own micro-batch and
thread count: several workers give what one would have given, bit for bit on the same kind of
device.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

from catalog.store.records import Span
from jobs.runners.task import Shard

#: Seconds a shard should last at least: every shard loads the network again.
LEAST_SECONDS = 60.0


def remaining_shards(done: Sequence[Span]) -> list[Shard]:
    """Return the shards that no durable batch covers, the open end included.

    Parameters
    ----------
    done : sequence of Span
        The durable batches, in order, no two spans touching.
    """
    shards = []
    batch, position = 0, 0
    for span in done:
        if span.first > batch:
            shards.append(Shard(batch, span.first, position))
        batch, position = span.stop, span.position
    return [*shards, Shard(batch, None, position)]


def shard_count(seconds: float, total: float, workers: int) -> int:
    """Return over how many workers a job is spread.

    One that takes longer than a worker's share of all jobs, and than a minute, is spread: the
    others would wait for it at the end.

    Parameters
    ----------
    seconds : float
        Expected seconds of the job.
    total : float
        Expected seconds of all jobs, this one included.
    workers : int
        Number of workers.
    """
    fair = max(total / workers, LEAST_SECONDS) if workers > 1 else math.inf
    return min(workers, max(1, math.ceil(seconds / fair)))


def split(shard: Shard, count: int, batches: int) -> Iterator[Shard]:
    """Yield a shard as at most ``count`` shards of about equally many batches.

    Parameters
    ----------
    shard : Shard
        The shard to split.
    count : int
        The number of shards wanted.
    batches : int
        Whole batches of the job, if no image is broken.
    """
    stop = batches if shard.stop is None else shard.stop
    count = max(1, min(count, stop - shard.first))
    bounds = [shard.first + (stop - shard.first) * k // count for k in range(count)]
    for number, first in enumerate(bounds):
        last = number == count - 1
        yield dataclasses.replace(
            shard,
            first=first,
            stop=shard.stop if last else bounds[number + 1],
            position=shard.position if number == 0 else None,
        )
