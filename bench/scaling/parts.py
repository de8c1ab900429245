"""The parts of a scan's time, from small scans of 4 to 32 workers that sleep."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np
from scipy.optimize import nnls

from bench.scaling.asleep import Load, scan

#: The small scans: of as few batches as tell the cost of a job, and of many; of more workers, for
#: their starts; and of batches that reach the driver several at a time, for the cost of each.
SMALL = (
    *(Load(4, 16, 2, 0.5), Load(4, 12, 16, 0.25), Load(16, 48, 2, 0.5), Load(16, 32, 16, 0.25)),
    *(Load(32, 32, 2, 0.5), Load(16, 16, 200, 0.002)),
)


@dataclass(frozen=True, slots=True)
class Parts:
    """Seconds of each part of a scan."""

    #: Planning, for a scan and for a job of it.
    planning: float
    plan: float
    #: From the plan to a Ray that workers can be started on.
    ray: float
    #: From there to the first jobs: of a worker that starts alone, and what each further one of
    #: the same machine adds, as all start at once.
    worker: float
    further: float
    #: Of a worker: beside each batch, and from one job's end to the next one's beginning, without
    #: the driver's work.
    beside: float
    between: float
    #: From the last job's end to the scan's.
    closing: float
    #: The driver's work: of a round, for each worker there is, each job that ended, each worker
    #: that had sent something, and each batch: a worker sends at once what it has.
    round: float
    watch: float
    job: float
    take: float
    batch: float


def measured(loads: Sequence[Load] = SMALL) -> tuple[Parts, Parts]:
    """Run small scans and return the parts: as they are here, and as a quiet machine has them.

    Those of a quiet one are the least that was seen, and the processor time of the driver's rounds.
    """
    times = [(load, scan(load)) for load in loads]
    planning = fitted([(1, load.jobs, each.planned_at) for load, each in times])
    starts = [
        (1, load.workers - 1, jobs[0][0] - each.ray_at)
        for load, each in times
        for jobs in each.jobs.values()
    ]
    clock, busy = (
        fitted([(1, load.workers, *r[:3], r[k]) for load, each in times for r in each.rounds])
        for k in (3, 4)
    )
    beside = [
        (end - begin) / load.batches - load.seconds
        for load, each in times
        for jobs in each.jobs.values()
        for begin, end in jobs
    ]
    between = [
        after[0] - before[1]
        for _, each in times
        for jobs in each.jobs.values()
        for before, after in itertools.pairwise(jobs)
    ]
    closing = [each.ended_at - max(jobs[-1][1] for jobs in each.jobs.values()) for _, each in times]
    ray = [each.ray_at - each.planned_at for _, each in times]
    rest = (beside, between, closing)
    first = min(seconds for *_, seconds in starts)
    here = (*planning, fmean(ray), *fitted(starts), *map(median, rest), *clock)
    quiet = (*planning, min(ray), first, 0.0, *(max(min(part), 0.0) for part in rest), *busy)
    return Parts(*here), Parts(*quiet)


def fitted(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return what one of each column costs, none below 0; a row's last value is its seconds."""
    values = np.array(rows, float)
    return tuple(float(cost) for cost in nnls(values[:, :-1], values[:, -1])[0])
