"""Measuring one model: from batches of images to a row for each activation site and batch.

Read this first. A batch of n images passes through the network in micro-batches; at each
activation call the input and the output are averaged over space, so that of each site only two
n x c matrices survive. When n images are in, each pair of matrices becomes a score.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice

import torch
from torch import nn

from survey.capture.forward import Capture
from survey.capture.pooled_pair import PooledPair
from survey.capture.rounding import NOISE_IMAGES
from survey.departures import Departure
from survey.device import device_of, is_accelerator, random_numbers_kept
from survey.errors import CaptureError, InputError
from survey.eval_mode import evaluating
from survey.few_images import automatic_images
from survey.metrics import reads_counts, with_known_metrics
from survey.micro_batches import MicroBatch, micro_batches
from survey.results import BatchScores, SiteScore
from survey.score_queue import PassedBatch, ScoreQueue, overlap_of
from survey.settings import AUTO, MeasureSettings, require_settings
from survey.stopping import Spread

Batch = torch.Tensor | tuple[torch.Tensor, torch.Tensor] | list[torch.Tensor]


def measure(
    model: nn.Module, batches: Iterable[Batch], settings: MeasureSettings | None = None
) -> Iterator[SiteScore]:
    """Measure a model's non-linearity signature, row by row.

    Parameters
    ----------
    model : torch.nn.Module
        Any network, on any device. It is put in eval mode and restored afterwards.
    batches : iterable of torch.Tensor or (torch.Tensor, torch.Tensor)
        Images N x C x H x W on the model's device, with labels or without, in batches of any
        size: they are re-cut to ``settings.images_per_score``. A last partial batch is not scored.
    settings : MeasureSettings, optional
        Batch size, shrinkage, ridge, pooling, metrics, and the precision that is enough.

    Yields
    ------
    SiteScore
        One row a site and batch: batches in order, sites in execution order.

    Raises
    ------
    InputError
        If there are fewer images than one score needs.
    SettingsError
        If the settings are of another type.
    UnknownName
        If they name a metric that there is none of.
    CaptureError
        If the network's activations cannot be followed, or there are none.

    References
    ----------
    Bouniot et al. 2025, arXiv:2310.11439, Section 4 (the non-linearity signature).
    """
    for batch in measure_batches(model, batches, settings):
        yield from batch.scores


def measure_batches(  # noqa: PLR0913 - all but the first two have defaults
    model: nn.Module,
    batches: Iterable[Batch],
    settings: MeasureSettings | None = None,
    *,
    first_batch: int = 0,
    spread: Spread | None = None,
    stop_batch: int | None = None,
    prepare: Callable[[torch.Tensor], torch.Tensor] | None = None,
    passed: Callable[[], None] | None = None,
    whole: bool = False,
) -> Iterator[BatchScores]:
    """Measure a model batch by batch, with accuracy counts; see ``measure``.

    Parameters
    ----------
    model, batches, settings
        As for ``measure``.
    first_batch : int
        Number of the first batch, when the ones before it are already measured.
    spread : Spread, optional
        What the batches before it gave. It takes every batch in that is yielded.
    stop_batch : int, optional
        One past the last batch; no image after it is taken.
    prepare : callable, optional
        Makes the model's input from the images of one forward pass, once they are cut to size.
    passed : callable, optional
        Called when a batch has passed, before it is scored and yielded: on an accelerator images of
        later batches are taken meanwhile.
    whole : bool
        Whether images that are fewer than one score takes make one, as with ``"auto"``: a score
        takes the whole dataset, of which some cannot be read.

    Yields
    ------
    BatchScores
        One a batch; the last one may be partial, and then holds counts but no scores. They end
        with the images, or earlier at the settings' precision.
    """
    settings = with_known_metrics(require_settings(settings))
    spread = spread if spread is not None else Spread()
    if spread.reaches(settings) or first_batch == stop_batch:
        return
    with evaluating(model), ScoreQueue(overlap_of(model)) as queue:
        passes = _passes(model, batches, settings, (first_batch, stop_batch), prepare, whole)
        ended, error = False, None
        while not ended:
            batch = None
            try:
                batch = next(passes)
            except StopIteration:
                ended = True
            except Exception as problem:  # noqa: BLE001 - raised below
                ended, error = True, problem
            if batch is not None:
                queue.add(batch)
                if passed is not None:
                    passed()
            # Also of an error: what passed before it is kept, as if each had been scored at once.
            for scored in queue.scored(every=ended):
                spread.add((score.site, score.affinity) for score in scored.scores)
                yield scored
                if spread.reaches(settings):
                    return
        try:
            if error is not None:
                raise error
        finally:
            # It would hold on to this frame, and to the tensors of its own.
            del error


def _passes(
    model: nn.Module,
    batches: Iterable[Batch],
    settings: MeasureSettings,
    numbers: tuple[int, int | None],
    prepare: Callable[[torch.Tensor], torch.Tensor] | None,
    whole: bool,
) -> Iterator[PassedBatch | None]:
    """Yield after every forward pass: the batch that it completes, else None."""
    number, stop = numbers
    capture = Capture(model, settings.pooling, counted=reads_counts(settings.metrics))
    if settings.images_per_score == AUTO:
        whole = True
        settings, batches = _with_number(capture, batches, settings, prepare)
    gathering = _Gathering(number)
    size = settings.pass_images(accelerator=is_accelerator(device_of(model)))
    for micro in micro_batches(batches, settings.score_images, size):
        # Copied, since a network may change its input in place.
        inputs = prepare(micro.images) if prepare else micro.images.clone()
        gathering.add(micro, *_forward(capture, inputs, first=gathering.images == 0))
        if gathering.images < settings.score_images:
            yield None
            continue
        yield gathering.passed(settings)
        number += 1
        if number == stop:
            return
        gathering = _Gathering(number, gathering.sites)
    if gathering.images:
        if number == 0 and whole and gathering.images > 1:
            settings = replace(settings, images_per_score=gathering.images)
        elif number == 0:
            raise InputError(
                f"only {gathering.images} images were given, fewer than images_per_score "
                f"({settings.score_images}): not one score can be computed",
                hint=f"give more images, or set images_per_score to {gathering.images} or less"
                if gathering.images > 1
                else "a score compares at least two images",
            )
        yield gathering.passed(settings)
    elif number == 0:
        raise InputError("no images were given")


def _forward(
    capture: Capture, images: torch.Tensor, *, first: bool
) -> tuple[object, list[PooledPair]]:
    few = images[:NOISE_IMAGES].clone() if first else None
    # Not in inference mode: what a network keeps of a pass could not be trained any more.
    with torch.no_grad():
        output, pairs = capture.forward(images)
        if few is not None:
            pairs = capture.with_noise(few, pairs)
    if not pairs:
        raise CaptureError(
            "the forward pass calls no activation that depends on the images",
            hint="is this the whole network? softmax does not count; survey models show NAME"
            " --sites lists every call",
        )
    return output, pairs


def _with_number(
    capture: Capture,
    batches: Iterable[Batch],
    settings: MeasureSettings,
    prepare: Callable[[torch.Tensor], torch.Tensor] | None,
) -> tuple[MeasureSettings, Iterable[Batch]]:
    """Choose the images in one score, from the network's sites on the first few images."""
    size = settings.pass_images(accelerator=False)
    micros = micro_batches(batches, size, size)
    first = list(islice(micros, 1))
    widths: Counter[int] = Counter()
    for micro in first:
        # Copied, since a network may change its input in place.
        few = micro.images[:2].clone()
        with random_numbers_kept(few.device):
            _, pairs = _forward(capture, prepare(few) if prepare else few, first=False)
        widths.update(pair.x.shape[1] for pair in pairs if pair.x is not None)
    settings = replace(settings, images_per_score=automatic_images(widths))
    again = chain(first, micros)
    return settings, (m.images if m.labels is None else (m.images, m.labels) for m in again)


class _Gathering:
    """The current batch, assembled from micro-batches."""

    def __init__(self, number: int, sites: list[str] | None = None) -> None:
        self._number = number
        #: The names of the sites, which are the same in every forward pass.
        self.sites = sites
        self.images = 0
        self._passes: list[Departure] = []
        self._began = time.perf_counter()

    def add(self, micro: MicroBatch, output: object, pairs: list[PooledPair]) -> None:
        names = [pair.site.site_name for pair in pairs]
        self.sites = self.sites or names
        if names != self.sites:
            raise CaptureError(
                f"the forward pass made {len(names)} activation calls where it had made "
                f"{len(self.sites)} before: its path depends on the images"
            )
        self.images += len(micro.images)
        self._passes.append(Departure(pairs, output, micro.labels))

    def passed(self, settings: MeasureSettings) -> PassedBatch:
        """Return the batch; it has scores where it has as many images as one is made of."""
        scored = self.images == settings.score_images
        sites = len(self.sites or ()) if scored else 0
        return PassedBatch(self._number, self.images, sites, self._began, self._passes, settings)
