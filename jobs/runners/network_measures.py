"""A worker's measures of the whole network, one after the other, before its batches."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing

from torch import nn

from catalog.store.records import NetworkRecord
from jobs.runners.events import Halved, Host, Measuring
from jobs.runners.images import TaskImages
from jobs.runners.task import Task
from survey.network_measures.base import NetworkMeasure, NetworkScore, SampledMeasure
from survey.network_measures.sample import ImageSample
from survey.network_measuring import Halving, fitting_steps, measures_named

#: Seconds between two reports of how far a measure is.
REPORT_SECONDS = 1.0


def network_measured(
    model: nn.Module, images: TaskImages, task: Task, host: Host
) -> Iterator[Measuring | Halved | NetworkRecord]:
    """Compute the measures of a task, each a record of its own that a lost worker leaves behind.

    Parameters
    ----------
    model : torch.nn.Module
        The network, in eval mode on its device.
    images : TaskImages
        The dataset's images; measures read the first of them, whatever the shard.
    task : Task
        Knows which measures.
    host : Host
        What computes them.
    """
    chosen = measures_named(task.measures)
    wanted = max((each.images for each in chosen if isinstance(each, SampledMeasure)), default=0)
    micro_batch = task.micro_batch or images.usual_pass
    sample, unread = None, True
    for measure in chosen:
        sampled = isinstance(measure, SampledMeasure)
        if sampled and unread:
            # A worker lost while it reads them is none that a measure of the structure lost.
            sample, unread = images.first(wanted, task.measure_micro_batch or micro_batch), False
        read = sample if sampled else None
        scores = yield from _scored(measure, model, read, images, task, host)
        yield NetworkRecord(task.run_id, task.attempt, scores)


def _scored(
    measure: NetworkMeasure,
    model: nn.Module,
    sample: ImageSample | None,
    images: TaskImages,
    task: Task,
    host: Host,
) -> Generator[Measuring | Halved, None, Mapping[str, NetworkScore]]:
    """Compute a measure; report how far one is that reads images, and whether it begins anew."""
    if isinstance(measure, SampledMeasure):
        yield Measuring(task.run_id, task.attempt, measure.name, 0.0)
    shape, reported = task.job.transform.shape, time.monotonic()
    with closing(fitting_steps(measure, model, shape, sample)) as steps:
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                scores: Mapping[str, NetworkScore] = end.value
                return scores
            if isinstance(step, Halving):
                sizes = step.micro_batch, host.device_name, step.message
                yield Halved(task.run_id, task.attempt, *sizes, measure.name)
                continue
            images.pace.step()
            if time.monotonic() - reported >= REPORT_SECONDS:
                reported = time.monotonic()
                yield Measuring(task.run_id, task.attempt, measure.name, step)
