"""A worker's training: load a network and its images, yield its state pass by pass.

It writes nothing: states leave as events, so that another worker can go on from the last of them.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import torch

from catalog.models.counting import model_cost
from jobs.planning.job import Job
from jobs.runners.events import Event, Finished, NetworkLinearised, Started, Trained
from jobs.runners.heartbeat import Heartbeat
from jobs.runners.images import TaskImages
from jobs.runners.loading import PlannedModel, Stage
from jobs.runners.pace import AttemptPace
from jobs.runners.task import TrainingTask
from jobs.runners.worker_host import host_of, peak_memory, reset_peak_memory
from survey import LabelledImages
from survey.errors import DatasetError
from survey.linearising.training import Training


def run_training(
    task: TrainingTask, device: torch.device, threads: int, stage: Stage, heartbeat: Heartbeat
) -> Iterator[Event]:
    """Compute one attempt at a linearisation.

    Yields
    ------
    Event
        ``Started``, a ``Trained`` for each pass that is left, ``NetworkLinearised`` and
        ``Finished``.
    """
    torch.set_num_threads(threads)
    # The momentum of channels that died decays to denormal numbers, up to ten times as slow.
    torch.set_flush_denormal(True)
    try:
        yield from _trained(task, device, threads, stage, heartbeat)
    finally:
        torch.set_flush_denormal(False)


def _trained(
    task: TrainingTask, device: torch.device, threads: int, stage: Stage, heartbeat: Heartbeat
) -> Iterator[Event]:
    job, identity = task.job, (task.run_id, task.attempt)
    reset_peak_memory(device)
    planned = PlannedModel(job.trained, stage)
    model = planned.loaded.model
    cost = model_cost(model, job.trained.transform.shape)
    stage.name = "data"
    pace = AttemptPace(heartbeat, None)
    images, heldout = (_labelled(planned, each, pace) for each in (job.trained, job.judged))
    host = host_of(device, threads)
    yield Started(*identity, host, cost.parameters, cost.gflops, planned.loaded.dropped_keys)
    stage.name = "train"
    training = Training(model.to(device), images, job.settings, task.state)
    seconds, began = [], time.monotonic()
    for state in training.passes(lambda _: pace.step()):
        seconds.append(time.monotonic() - began)
        yield Trained(*identity, state, seconds[-1])
        began = time.monotonic()
    left = training.result(heldout)
    result: dict[str, Any] = {
        "top1": left.top1,
        "heldout_images": left.heldout,
        "path_length": left.path_length,
        "path_length_normalised": left.path_length_normalised,
        "full_path_length": left.full_path_length,
        "full_path_length_normalised": left.full_path_length_normalised,
        "active_fraction": left.active_fraction,
        "sites": [dataclasses.asdict(site) for site in left.sites],
        "others": list(left.others),
        "passes": [dataclasses.asdict(each) for each in left.passes],
        "train_images": len(images),
        # Of this attempt alone; None where every pass was done before it.
        "seconds_a_pass": sum(seconds) / len(seconds) if seconds else None,
        "device_name": host.device_name,
        "hostname": host.hostname,
        "threads": threads,
        "torch": str(torch.__version__),
    }
    yield NetworkLinearised(*identity, result)
    yield Finished(*identity, peak_memory=peak_memory(device))


def _labelled(planned: PlannedModel, job: Job, pace: AttemptPace) -> LabelledImages:
    """Return all images of a dataset that have a class among the network's outputs."""
    dataset = planned.dataset(job)
    reader = TaskImages(dataset, job, planned.labels(dataset), torch.device("cpu"), pace)
    pixels, labels = [], []
    for sample in reader.read(0):
        pace.step()
        label = reader.label(sample)
        if sample.pixels is not None and label >= 0:
            pixels.append(sample.pixels)
            labels.append(label)
    if not pixels:
        raise DatasetError(
            f"no image of {job.dataset} has a class among the outputs of {job.full_name}",
            hint="name a dataset whose classes are the network's",
        )
    return LabelledImages(reader.prepare(torch.stack(pixels)), torch.tensor(labels))
