"""A worker's measures of the whole network, one after the other, before its batches."""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing

import torch
from torch import nn

from catalog.store.records import NetworkRecord
from jobs.runners.events import Halved, Host, Measuring
from jobs.runners.images import TaskImages
from jobs.runners.task import Task
from survey.network_measures.base import NetworkMeasure, NetworkScore, SampledMeasure, Steps
from survey.network_measures.sample import ImageSample
from survey.network_measuring import measures_named, measuring_steps
from survey.out_of_memory import is_out_of_memory
from survey.text import first_line, storable

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
    micro_batch = task.micro_batch or task.job.settings.micro_batch
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
    """Compute a measure, again with half as many images at once where the memory is not enough.

    One that has not even room for one image is without a value, and takes nothing else with it.
    """
    size = task.job.transform.size
    while True:
        try:
            with closing(measuring_steps(measure, model, (3, size, size), sample)) as steps:
                return (yield from _reported(steps, measure, images, task))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            message = storable(f"{type(error).__name__}: {first_line(error)}")
        # Outside of the except clause: the error holds on to the tensors that were too many.
        gc.collect()
        torch.cuda.empty_cache()
        if sample is None or sample.micro_batch == 1:
            room = "it" if sample is None else "one image at once"
            return measure.without_value(f"the memory is not enough for {room}: {message}")
        sample = dataclasses.replace(sample, micro_batch=sample.micro_batch // 2)
        sizes = sample.micro_batch, host.device_name, message
        yield Halved(task.run_id, task.attempt, *sizes, measure.name)


def _reported(
    steps: Steps, measure: NetworkMeasure, images: TaskImages, task: Task
) -> Generator[Measuring, None, Mapping[str, NetworkScore]]:
    """Report how far a measure is that reads images, now and then."""
    if isinstance(measure, SampledMeasure):
        yield Measuring(task.run_id, task.attempt, measure.name, 0.0)
    reported = time.monotonic()
    while True:
        try:
            fraction = next(steps)
        except StopIteration as end:
            scores: Mapping[str, NetworkScore] = end.value
            return scores
        images.pace.step()
        if time.monotonic() - reported >= REPORT_SECONDS:
            reported = time.monotonic()
            yield Measuring(task.run_id, task.attempt, measure.name, fraction)
