"""A worker's computation: load a model, feed it a dataset, yield the scores batch by batch.

The same on a Ray actor and in the caller's process. It writes nothing: rows leave as events.
"""

from __future__ import annotations

import dataclasses
import gc
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial

import torch

from catalog.models.counting import model_cost
from catalog.store.records import BatchRecord
from jobs.runners.events import Event, Failed, Finished, Halved, Host, Skipped, Started
from jobs.runners.freed_memory import kept_memory, return_freed_memory
from jobs.runners.heartbeat import Heartbeat
from jobs.runners.images import Feed, TaskImages
from jobs.runners.loading import PlannedModel, Stage
from jobs.runners.network_measures import network_measured
from jobs.runners.pace import AttemptPace
from jobs.runners.planned import ChangedWeights
from jobs.runners.task import AnyTask, Task, TrainingTask
from jobs.runners.training import run_training
from jobs.runners.worker_host import host_of, peak_memory, reset_peak_memory
from survey import SurveyError, measure_batches
from survey.device import full_precision
from survey.out_of_memory import is_out_of_memory
from survey.text import storable


def run_task(
    task: AnyTask, device: str, threads: int, heartbeat: Heartbeat | None = None
) -> Iterator[Event]:
    """Compute one attempt at one shard of a job, or at a training.

    Parameters
    ----------
    task : Task or TrainingTask
        The attempt.
    device : str
        A torch device: ``cpu`` or ``cuda:0``.
    threads : int
        Threads for torch's own arithmetic.
    heartbeat : Heartbeat, optional
        Counts the steps between two events.

    Yields
    ------
    Event
        ``Started``, a ``NetworkRecord`` for each measure that is asked for, after ``Measuring``
        where it reads images, a ``BatchRecord`` for each batch after a ``Skipped`` for each of its
        broken images, ``Halved`` wherever the memory was not enough, and ``Finished``; or
        ``Failed`` at any point. Of a training see ``jobs.runners.training``.
    """
    stage = Stage()
    compute = _COMPUTATIONS[type(task)]
    try:
        with full_precision():
            yield from compute(task, torch.device(device), threads, stage, heartbeat or Heartbeat())
    # The one place where a job's failure becomes a row: also of a network that calls sys.exit.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        message = error.message if isinstance(error, SurveyError) else _describe(error)
        hint = error.hint if isinstance(error, SurveyError) else None
        texts = storable(message), hint, storable(traceback.format_exc())
        changed = isinstance(error, ChangedWeights)
        yield Failed(task.run_id, task.attempt, stage.name, *texts, changed)


def _run(
    task: Task, device: torch.device, threads: int, stage: Stage, heartbeat: Heartbeat
) -> Iterator[Event]:
    job, host, pace = task.job, host_of(device, threads), AttemptPace(heartbeat, task.deadline)
    torch.set_num_threads(threads)
    reset_peak_memory(device)
    planned = PlannedModel(job, stage)
    loaded = planned.loaded
    model = loaded.model.eval()
    cost = model_cost(model, job.transform.shape)
    model.to(device)
    pace.step()
    stage.name = "data"
    dataset = planned.dataset(job)
    signature = dataset.stat_signature()
    labels = planned.labels(dataset)
    yield Started(job.run_id, task.attempt, host, cost.parameters, cost.gflops, loaded.dropped_keys)
    stage.name = "measure"
    images = TaskImages(dataset, job, labels, device, pace)
    loading = peak_memory(device)
    yield from network_measured(model, images, task, host)
    if task.measures:
        # What measures hold is not what the run needs.
        gc.collect()
        reset_peak_memory(device)
    feed = Feed(images, task)
    with kept_memory() if device.type == "cpu" else nullcontext():
        yield from _measured(model, feed, task, host)
    # A run is done only if the dataset is still the one that was planned.
    planned.dataset(job, signature)
    skipped = feed.take_rest()
    yield from skipped
    names = tuple(image.name for image in skipped)
    peak = max(loading or 0, peak_memory(device) or 0) or None
    yield Finished(job.run_id, task.attempt, names, peak)


def _measured(
    model: torch.nn.Module, feed: Feed, task: Task, host: Host
) -> Iterator[Skipped | BatchRecord | Halved]:
    """Yield the shard's batches, halving the forward passes where the memory is not enough."""
    shard, number = task.shard, task.shard.first
    prepare = partial(_prepared, feed) if host.device == "cpu" else feed.prepare
    while shard.stop is None or number < shard.stop:
        settings = dataclasses.replace(task.job.settings, micro_batch=feed.micro_batch)
        batches = measure_batches(
            model,
            feed,
            settings,
            first_batch=number,
            spread=task.spread,
            stop_batch=shard.stop,
            prepare=prepare,
            passed=feed.batch_passed,
            whole=settings.score_images >= task.job.images,
        )
        try:
            for batch in batches:
                read = feed.batch_measured()
                yield from read.skipped
                yield BatchRecord(
                    task.run_id,
                    task.attempt,
                    batch,
                    read.position,
                    tuple(image.name for image in read.skipped),
                    micro_batch=feed.micro_batch,
                    threads=host.threads,
                    device_name=host.device_name,
                    hostname=host.hostname,
                )
                number = batch.batch + 1
        except Exception as error:
            if not is_out_of_memory(error) or feed.micro_batch == 1:
                raise
            message = _describe(error).splitlines()[0]
        else:
            if task.spread.reaches(settings):
                # Images of batches that are not needed any more.
                feed.forget_rest()
            return
        # Outside of the except clause: the error holds on to the tensors that were too many.
        feed.halve()
        gc.collect()
        torch.cuda.empty_cache()
        yield Halved(task.run_id, task.attempt, feed.micro_batch, host.device_name, message)


def _prepared(feed: Feed, images: torch.Tensor) -> torch.Tensor:
    """Return the input of one pass on a processor."""
    return_freed_memory()
    return feed.prepare(images)


def _describe(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - another library's error may fail to format itself
        return type(error).__name__


#: What computes each kind of task.
_COMPUTATIONS: Mapping[type, Callable[..., Iterator[Event]]] = {
    Task: _run,
    TrainingTask: run_training,
}
