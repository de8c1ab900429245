"""The images of a task: read from its dataset, and prepared for its network.

Reads through the home's cache of decoded images. What is computed of them lies in
``jobs.runners.worker``.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from catalog.datasets.base import ImageDataset, Sample
from catalog.home import Home
from catalog.models.base import InputTransform
from catalog.pixel_cache.cache import PixelCache
from jobs.planning.job import Job
from jobs.runners.events import Skipped
from jobs.runners.pace import AttemptPace
from jobs.runners.task import Task
from survey.device import is_accelerator
from survey.network_measures.sample import ImageSample

#: Thousandths of red, green and blue in the luma of ITU-R BT.601, which Pillow takes too.
LUMA = (299.0, 587.0, 114.0)


class TaskImages:
    """The images of a task's dataset, whatever its shard.

    Parameters
    ----------
    dataset : ImageDataset
        The dataset.
    job : Job
        Knows the preparation of its images.
    labels : tuple of int or None
        The network's output for each class of the dataset; None where it has none.
    device : torch.device
        Where the network lies.
    pace : AttemptPace
        Counts the images read one by one.
    """

    def __init__(
        self,
        dataset: ImageDataset,
        job: Job,
        labels: tuple[int, ...] | None,
        device: torch.device,
        pace: AttemptPace,
    ) -> None:
        self.pace = pace
        self._dataset, self._job, self._labels, self._device = dataset, job, labels, device

    @property
    def usual_pass(self) -> int:
        """Images in one forward pass where no other number is known to fit."""
        return self._job.settings.pass_images(accelerator=is_accelerator(self._device))

    def read(self, position: int) -> Iterator[Sample]:
        """Yield images from a position on, out of the home's cache of decoded ones if possible."""
        job = self._job
        if job.home is None:
            return self._dataset.samples(job.transform, position)
        cache = PixelCache(Home(job.home).pixels)
        return cache.samples(self._dataset, job.dataset_fingerprint, job.transform, position)

    def label(self, sample: Sample) -> int:
        """Return the network's output for an image's class; -1 where there is none."""
        if self._labels is None or sample.label is None:
            return -1
        return self._labels[sample.label]

    def prepare(self, images: torch.Tensor) -> torch.Tensor:
        """Return the input of one forward pass: normalised, on the device."""
        return prepared(images, self._job.transform, self._device)

    def first(self, count: int, micro_batch: int) -> ImageSample | None:
        """Return the first images that can be decoded, at most ``count``; None where none can."""
        pixels, labels = [], []
        for sample in self.read(0):
            self.pace.step()
            if sample.pixels is not None:
                pixels.append(sample.pixels)
                labels.append(self.label(sample))
            if len(pixels) == count:
                break
        if not pixels:
            return None
        known = torch.tensor(labels) if max(labels) >= 0 else None
        return ImageSample(torch.stack(pixels), known, micro_batch, self.prepare)


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """What was read for one batch."""

    #: Place in the dataset's order where the next batch begins.
    position: int
    #: Images passed over.
    skipped: tuple[Skipped, ...]


class Feed:
    """A shard's images one by one, and the place reached in the dataset.

    Parameters
    ----------
    images : TaskImages
        Reads them.
    task : Task
        Knows the shard.
    """

    def __init__(self, images: TaskImages, task: Task) -> None:
        self.micro_batch = task.micro_batch or images.usual_pass
        self._images, self._task = images, task
        self._skipped: list[Skipped] = []
        #: Batches that have passed and are not measured yet.
        self._passed: deque[ReadBatch] = deque()
        #: Place in the dataset's order of the next image, and of the first that is not measured.
        self._position = self._batch_begins = self._first_position()

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield each image, as it was decoded, with its label."""
        for sample in self._images.read(self._position):
            self._position = sample.position + 1
            if sample.pixels is None:
                reason = sample.error or "no pixels"
                run_id, attempt = self._task.run_id, self._task.attempt
                self._skipped.append(Skipped(run_id, attempt, sample.name, reason))
            else:
                yield sample.pixels[None], torch.tensor([self._images.label(sample)])

    def prepare(self, images: torch.Tensor) -> torch.Tensor:
        """Return the input of one forward pass, which is a step of the attempt."""
        self._images.pace.step()
        return self._images.prepare(images)

    def batch_passed(self) -> None:
        """Note that the images up to here are one more batch."""
        self._passed.append(ReadBatch(self._position, self.take_rest()))

    def batch_measured(self) -> ReadBatch:
        """Return what was read for the next batch, whose images need not be fed again."""
        read = self._passed.popleft()
        self._batch_begins = read.position
        return read

    def halve(self) -> None:
        """Halve the micro-batch and go back to the batch that is not measured yet."""
        self.micro_batch //= 2
        self.forget_rest()
        self._position = self._batch_begins

    def forget_rest(self) -> None:
        """Forget what was read and is not measured."""
        self._skipped = []
        self._passed.clear()

    def take_rest(self) -> tuple[Skipped, ...]:
        """Return the images passed over since the last batch."""
        taken, self._skipped = tuple(self._skipped), []
        return taken

    def _first_position(self) -> int:
        """Return where the shard's first batch begins: after the images of those before it."""
        shard, job = self._task.shard, self._task.job
        if shard.position is not None:
            return shard.position
        before, position = shard.first * job.settings.score_images, 0
        for sample in self._images.read(0):
            if before == 0:
                break
            before -= sample.pixels is not None
            position = sample.position + 1
            self._images.pace.step()
        return position


def prepared(images: torch.Tensor, transform: InputTransform, device: torch.device) -> torch.Tensor:
    """Return decoded images normalised on a device, to which they are copied without waiting."""
    # A single decoded picture is a view with its channels last; several were copied together.
    images = images.contiguous()
    if device.type != "cpu":
        # A copy of other memory would wait for all that the device was given before.
        images = images.pin_memory().to(device, non_blocking=True)
    return normalise(images, transform)


def normalise(pixels: torch.Tensor, transform: InputTransform) -> torch.Tensor:
    """Scale uint8 pixels to [0, 1] and standardise each channel; floats pass unchanged.

    Where the transform has one channel, colours become their luma (ITU-R BT.601).

    Parameters
    ----------
    pixels : torch.Tensor
        N x 3 x H x W.
    transform : InputTransform
        Its ``mean`` and ``std`` are used.

    Returns
    -------
    torch.Tensor
        float32, on the same device, of the transform's channels.
    """
    if pixels.is_floating_point():
        return pixels
    mean, std, parts = (
        _by_channel(tuple(each), pixels.device) for each in (transform.mean, transform.std, LUMA)
    )
    values = pixels.to(torch.float32)
    if len(mean) == 1:
        # Whole numbers that float32 holds: grey pixels keep their values.
        values = (values * parts).sum(dim=1, keepdim=True).div_(sum(LUMA))
    return values.div_(255).sub_(mean).div_(std)


@functools.cache
def _by_channel(numbers: tuple[float, ...], device: torch.device) -> torch.Tensor:
    """Return a number a channel on a device, copied there once: a copy waits for the device."""
    return torch.tensor(numbers, device=device)[:, None, None]
