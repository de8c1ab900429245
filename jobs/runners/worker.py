"""One worker's work: load a model, feed it a dataset, say what came out batch by batch.

The same on a Ray actor and in the caller's process. Writes nothing: rows leave as events.
"""

from __future__ import annotations

import dataclasses
import gc
import time
import traceback
from collections.abc import Iterator

import torch

from catalog.checkpoints import Checkpoint, classes_of, load_model
from catalog.datasets import open_dataset
from catalog.datasets.base import ImageDataset, Sample
from catalog.datasets.label_map import label_map
from catalog.downloads import FileStore
from catalog.home import Home
from catalog.models import find
from catalog.models.base import InputTransform
from catalog.models.counting import model_cost
from catalog.pixel_cache.cache import PixelCache
from jobs.planning.job import Job
from jobs.runners.events import BatchDone, Event, Failed, Finished, Halved, Skipped, Started
from jobs.runners.hardware import host_of, is_out_of_memory, peak_memory, reset_peak_memory
from jobs.runners.heartbeat import Pulse
from jobs.runners.task import Task
from survey import CatalogError, ClusterError, SurveyError, measure_batches


def run_task(task: Task, device: str, threads: int, pulse: Pulse | None = None) -> Iterator[Event]:
    """Do one attempt at one part of a job.

    Parameters
    ----------
    task : Task
        What to measure.
    device : str
        A torch device: ``cpu`` or ``cuda:0``.
    threads : int
        Threads for torch's own arithmetic.
    pulse : Pulse, optional
        Counts what is done between two events.

    Yields
    ------
    Event
        ``Started``, one ``BatchDone`` a batch, ``Halved`` wherever the memory was not enough,
        then ``Finished``; or ``Failed`` at any point.
    """
    stage = _Stage()
    try:
        yield from _run(task, torch.device(device), threads, stage, pulse or Pulse())
    # The one place where a job's failure becomes a row: also of a network that calls sys.exit.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        message = error.message if isinstance(error, SurveyError) else _describe(error)
        hint = error.hint if isinstance(error, SurveyError) else None
        words = (_storable(text) for text in (message, traceback.format_exc()))
        yield Failed(task.run_id, task.attempt, stage.name, next(words), hint, next(words))


class _Stage:
    """What the worker is doing, for the record of a failure."""

    name = "build"


def _run(
    task: Task, device: torch.device, threads: int, stage: _Stage, pulse: Pulse
) -> Iterator[Event]:
    job = task.job
    torch.set_num_threads(threads)
    # On a GPU convolutions would otherwise round to 10 bits of mantissa and still say float32.
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    reset_peak_memory(device)
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
    yield Started(
        job.run_id,
        task.attempt,
        host_of(device, threads),
        cost.parameters,
        cost.gflops,
        loaded.dropped_keys,
    )
    stage.name = "measure"
    feed = _Feed(dataset, task, labels, device, pulse)
    yield from _measured(model, feed, task)
    # A run is done only if what it read is what was planned, to the end.
    reopened = open_dataset(job.dataset, job.base, store, folder)
    _require_planned("dataset", job.dataset_stat, reopened.stat_signature())
    yield Finished(job.run_id, task.attempt, feed.take_skipped(), peak_memory(device))


def _measured(model: torch.nn.Module, feed: _Feed, task: Task) -> Iterator[Event]:
    """Yield the part's batches, with ever smaller forward passes where the memory is not enough."""
    part, number = task.part, task.part.first
    while part.stop is None or number < part.stop:
        settings = dataclasses.replace(task.job.settings, micro_batch=feed.micro_batch)
        batches = measure_batches(model, feed, settings, first_batch=number, spread=task.spread)
        try:
            for batch in batches:
                yield BatchDone(
                    task.run_id,
                    task.attempt,
                    batch,
                    feed.position,
                    feed.take_skipped(),
                    feed.micro_batch,
                )
                number = batch.batch + 1
                feed.batch_ended()
                if number == part.stop:
                    return
        except Exception as error:
            if not is_out_of_memory(error) or feed.micro_batch == 1:
                raise
            message = _describe(error).splitlines()[0]
        else:
            return
        # Outside of the except clause: the error holds on to the tensors that were too many.
        feed.halve()
        _release_memory()
        yield Halved(task.run_id, task.attempt, feed.micro_batch, message)


def _release_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


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
        task: Task,
        labels: tuple[int, ...] | None,
        device: torch.device,
        pulse: Pulse,
    ) -> None:
        self.micro_batch = task.micro_batch or task.job.settings.micro_batch
        self._dataset, self._job, self._labels, self._device = dataset, task.job, labels, device
        self._pulse = pulse
        self._skipped: list[Skipped] = []
        self._began, self._deadline = time.monotonic(), task.deadline
        self.position = self._batch_begins = self._place_of(task)

    def batch_ended(self) -> None:
        """Note that what was fed so far need not be fed again."""
        self._batch_begins = self.position

    def halve(self) -> None:
        """Feed half as many images at once, from the batch that is not measured yet."""
        self.micro_batch //= 2
        self.position, self._skipped = self._batch_begins, []

    def take_skipped(self) -> tuple[Skipped, ...]:
        """Return the images skipped since the last call."""
        taken, self._skipped = tuple(self._skipped), []
        return taken

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        per_score, filled = self._job.settings.images_per_score, 0
        held: list[Sample] = []
        for sample in _samples(self._dataset, self._job, self.position):
            self.position = sample.position + 1
            if sample.pixels is None:
                self._skipped.append(Skipped(sample.name, sample.error or "no pixels"))
                continue
            held.append(sample)
            # Cut as the measuring code cuts, so that a finished batch ends at a known place.
            if len(held) == min(self.micro_batch, per_score - filled):
                filled = (filled + len(held)) % per_score
                yield self._batch(held)
                held = []
        if held:
            yield self._batch(held)

    def _place_of(self, task: Task) -> int:
        """Return where the part's first batch begins: after the images of those before it."""
        if task.part.position is not None:
            return task.part.position
        before, position = task.part.first * self._job.settings.images_per_score, 0
        for sample in _samples(self._dataset, self._job, 0):
            if before == 0:
                break
            before -= sample.pixels is not None
            position = sample.position + 1
            self._pulse.beat()
        return position

    def _batch(self, samples: list[Sample]) -> tuple[torch.Tensor, torch.Tensor]:
        self._pulse.beat()
        self._require_time()
        pixels = torch.stack([s.pixels for s in samples if s.pixels is not None])
        labels = torch.tensor([self._label(sample) for sample in samples])
        return normalise(pixels.to(self._device), self._job.transform), labels

    def _require_time(self) -> None:
        if self._deadline is not None and time.monotonic() - self._began > self._deadline:
            raise ClusterError(
                f"not done after {self._deadline:g} seconds, the deadline of a job",
                hint="finished batches are kept: give more time (--deadline) and run it again",
            )

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


def _describe(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - somebody else's error need not know how to say itself
        return type(error).__name__


def _storable(text: str) -> str:
    """Return a text as stores and logs can hold it, which a file's name need not be."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
