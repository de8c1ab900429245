"""One worker's work: load a model, feed it a dataset, say what came out batch by batch.

The same on a Ray actor and in the caller's process. Writes nothing: rows leave as events.
"""

from __future__ import annotations

import os
import platform
import traceback
from collections.abc import Iterator
from pathlib import Path

import torch

from catalog.checkpoints import Checkpoint, classes_of, load_model
from catalog.datasets import open_dataset
from catalog.datasets.base import ImageDataset, Sample
from catalog.decoded import PixelCache
from catalog.downloads import FileStore
from catalog.home import Home
from catalog.labels import label_map
from catalog.models import find
from catalog.models.base import InputTransform
from catalog.models.cost import model_cost
from jobs.events import BatchDone, Event, Failed, Finished, Skipped, Started
from jobs.job import Job, Progress
from survey import CatalogError, SurveyError, measure_batches


def run_job(job: Job, progress: Progress, device: str, threads: int) -> Iterator[Event]:
    """Do a job from where its durable batches end.

    Parameters
    ----------
    job : Job
        What to measure.
    progress : Progress
        What is already durable of it.
    device : str
        A torch device: ``cpu`` or ``cuda:0``.
    threads : int
        Threads for torch's own arithmetic.

    Yields
    ------
    Event
        ``Started``, one ``BatchDone`` a batch, then ``Finished``; or ``Failed`` at any point.
    """
    stage = _Stage()
    try:
        yield from _run(job, progress, torch.device(device), threads, stage)
    except Exception as error:  # noqa: BLE001 - the one place where a job's failure becomes a row
        message = error.message if isinstance(error, SurveyError) else _describe(error)
        hint = error.hint if isinstance(error, SurveyError) else None
        yield Failed(job.run_id, stage.name, message, hint, traceback.format_exc())


class _Stage:
    """What the worker is doing, for the record of a failure."""

    name = "build"


def _run(
    job: Job, progress: Progress, device: torch.device, threads: int, stage: _Stage
) -> Iterator[Event]:
    torch.set_num_threads(threads)
    # On a GPU convolutions would otherwise round to 10 bits of mantissa and still say float32.
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    (architecture,) = find(job.full_name)
    stage.name = "load"
    home = Home(job.home) if job.home else None
    store, folder = (FileStore(home.files), home.datasets) if home else (None, None)
    loaded = load_model(architecture, _present(job.checkpoint, store))
    _require_planned("checkpoint", job.checkpoint_sha256, loaded.sha256)
    model = loaded.model.eval()
    cost = model_cost(model, job.transform.size)
    model.to(device)
    stage.name = "data"
    dataset = open_dataset(job.dataset, job.base, store, folder)
    _require_planned("dataset", job.dataset_stat, dataset.stat_signature())
    labels = label_map(dataset.class_names, classes_of(architecture, job.checkpoint))
    yield _started(job, cost.parameters, cost.gflops, loaded.dropped_keys, device, threads)
    stage.name = "measure"
    feed = _Feed(dataset, job, progress.position, labels, device)
    for batch in measure_batches(model, feed, job.settings, first_batch=progress.batches):
        yield BatchDone(job.run_id, batch, feed.position, feed.take_skipped())
    # A run is done only if what it read is what was planned, to the end.
    reopened = open_dataset(job.dataset, job.base, store, folder)
    _require_planned("dataset", job.dataset_stat, reopened.stat_signature())
    yield Finished(job.run_id, feed.take_skipped())


def _present(checkpoint: Checkpoint, store: FileStore | None) -> Checkpoint:
    """Return a checkpoint whose file is on this machine: homes may not be shared by all."""
    path, weights = checkpoint.path, checkpoint.published
    if path is None or path.exists() or weights is None or weights.file is None or store is None:
        return checkpoint
    return checkpoint.located(store.get(weights.file))


def _samples(dataset: ImageDataset, job: Job, position: int) -> Iterator[Sample]:
    """Yield images from a position on, out of the home's cache of decoded ones where possible."""
    if job.home is None:
        return dataset.samples(job.transform, position)
    cache = PixelCache(Home(job.home).pixels)
    return cache.samples(dataset, job.dataset_fingerprint, job.transform, position)


def _require_planned(what: str, planned: object, found: object) -> None:
    # The run's key was made from what was planned: other content would be recorded under its name.
    if planned != found:
        raise CatalogError(
            f"the {what} changed since the run was planned: {planned} then, {found} now",
            hint="run the same command again: it plans anew",
        )


class _Feed:
    """A dataset as normalised micro-batches on the device, with the place reached in it."""

    def __init__(
        self,
        dataset: ImageDataset,
        job: Job,
        position: int,
        labels: tuple[int, ...] | None,
        device: torch.device,
    ) -> None:
        self.position = position
        self._dataset, self._job, self._labels, self._device = dataset, job, labels, device
        self._skipped: list[Skipped] = []

    def take_skipped(self) -> tuple[Skipped, ...]:
        """Return the images skipped since the last call."""
        taken, self._skipped = tuple(self._skipped), []
        return taken

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        settings, filled = self._job.settings, 0
        held: list[Sample] = []
        for sample in _samples(self._dataset, self._job, self.position):
            self.position = sample.position + 1
            if sample.pixels is None:
                self._skipped.append(Skipped(sample.name, sample.error or "no pixels"))
                continue
            held.append(sample)
            # Cut as the measuring code cuts, so that a finished batch ends at a known place.
            if len(held) == min(settings.micro_batch, settings.images_per_score - filled):
                filled = (filled + len(held)) % settings.images_per_score
                yield self._batch(held)
                held = []
        if held:
            yield self._batch(held)

    def _batch(self, samples: list[Sample]) -> tuple[torch.Tensor, torch.Tensor]:
        pixels = torch.stack([s.pixels for s in samples if s.pixels is not None])
        labels = torch.tensor([self._label(sample) for sample in samples])
        return normalise(pixels.to(self._device), self._job.transform), labels

    def _label(self, sample: Sample) -> int:
        if self._labels is None or sample.label is None:
            return -1
        return self._labels[sample.label]


def normalise(pixels: torch.Tensor, transform: InputTransform) -> torch.Tensor:
    """Scale uint8 pixels to [0, 1] and standardise each channel; floats pass unchanged.

    Parameters
    ----------
    pixels : torch.Tensor
        N x 3 x H x W.
    transform : InputTransform
        Its ``mean`` and ``std`` are used.

    Returns
    -------
    torch.Tensor
        float32, on the same device.
    """
    if pixels.is_floating_point():
        return pixels
    mean = torch.tensor(transform.mean, device=pixels.device)[:, None, None]
    std = torch.tensor(transform.std, device=pixels.device)[:, None, None]
    return pixels.to(torch.float32).div_(255).sub_(mean).div_(std)


def _started(
    job: Job,
    parameters: int,
    gflops: float,
    dropped_keys: tuple[str, ...],
    device: torch.device,
    threads: int,
) -> Started:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
    return Started(
        job.run_id,
        parameters,
        gflops,
        dropped_keys,
        device.type,
        name,
        threads,
        platform.node(),
        os.getpid(),
    )


def _processor() -> str:
    """Return the processor's own name where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
