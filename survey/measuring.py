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

from survey.accuracy import Hits, count_hits
from survey.capture.forward import Capture
from survey.capture.pooled_pair import PooledPair
from survey.capture.rounding import NOISE_IMAGES
from survey.errors import CaptureError, InputError
from survey.eval_mode import evaluating
from survey.few_images import automatic_images
from survey.metrics import with_known_metrics
from survey.micro_batches import MicroBatch, micro_batches
from survey.results import BatchScores, SiteScore
from survey.scoring import score_pair
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
        If the settings are of another type, or name a metric that there is none of.
    CaptureError
        If the network's activations cannot be followed, or there are none.

    References
    ----------
    Bouniot et al. 2025, arXiv:2310.11439, Section 4 (the non-linearity signature).
    """
    for batch in measure_batches(model, batches, settings):
        yield from batch.scores


def measure_batches(
    model: nn.Module,
    batches: Iterable[Batch],
    settings: MeasureSettings | None = None,
    *,
    first_batch: int = 0,
    spread: Spread | None = None,
    prepare: Callable[[torch.Tensor], torch.Tensor] | None = None,
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
    prepare : callable, optional
        Makes the model's input from the images of one forward pass, once they are cut to size.

    Yields
    ------
    BatchScores
        One a batch; the last one may be partial, and then holds counts but no scores. They end
        with the images, or earlier at the settings' precision.
    """
    settings = with_known_metrics(require_settings(settings))
    spread = spread if spread is not None else Spread()
    number = first_batch
    if spread.reaches(settings):
        return
    with evaluating(model):
        capture = Capture(model, settings.pooling)
        automatic = settings.images_per_score == AUTO
        if automatic:
            settings, batches = _with_number(capture, batches, settings, prepare)
        gathering = _Gathering(settings, number)
        for micro in micro_batches(batches, settings.score_images, settings.micro_batch):
            inputs = prepare(micro.images) if prepare else micro.images
            gathering.add(micro, *_forward(capture, inputs, first=gathering.images == 0))
            if gathering.images == settings.score_images:
                batch = gathering.finished()
                number += 1
                gathering = _Gathering(settings, number, gathering.sites)
                spread.add((score.site, score.affinity) for score in batch.scores)
                yield batch
                if spread.reaches(settings):
                    return
        if gathering.images:
            if number == 0 and automatic and gathering.images > 1:
                gathering.score_all()
            elif number == 0:
                raise InputError(
                    f"only {gathering.images} images were given, fewer than images_per_score "
                    f"({settings.score_images}): not one score can be computed",
                    hint=f"give more images, or set images_per_score to {gathering.images} or less"
                    if gathering.images > 1
                    else "a score compares at least two images",
                )
            yield gathering.finished()
        elif number == 0:
            raise InputError("no images were given")


def _forward(
    capture: Capture, images: torch.Tensor, *, first: bool
) -> tuple[object, list[PooledPair]]:
    # Copied, since a network may change its input in place.
    few = images[:NOISE_IMAGES].clone() if first else None
    with torch.inference_mode():
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
    micros = micro_batches(batches, settings.micro_batch, settings.micro_batch)
    first = list(islice(micros, 1))
    widths: Counter[int] = Counter()
    for micro in first:
        # Copied, since a network may change its input in place.
        few = micro.images[:2].clone()
        _, pairs = _forward(capture, prepare(few) if prepare else few, first=False)
        widths.update(pair.x.shape[1] for pair in pairs if pair.x is not None)
    settings = replace(settings, images_per_score=automatic_images(widths))
    again = chain(first, micros)
    return settings, (m.images if m.labels is None else (m.images, m.labels) for m in again)


class _Gathering:
    """The current batch, assembled from micro-batches."""

    def __init__(
        self, settings: MeasureSettings, number: int, sites: list[str] | None = None
    ) -> None:
        self._settings = settings
        self._number = number
        #: The names of the sites, which are the same in every forward pass.
        self.sites = sites
        self.images = 0
        self._parts: list[list[PooledPair]] = []
        self._hits = Hits(0, 0, 0)
        self._started = time.perf_counter()

    def add(self, micro: MicroBatch, output: object, pairs: list[PooledPair]) -> None:
        names = [pair.site.site_name for pair in pairs]
        self.sites = self.sites or names
        if names != self.sites:
            raise CaptureError(
                f"the forward pass made {len(names)} activation calls where it had made "
                f"{len(self.sites)} before: its path depends on the images"
            )
        self.images += len(micro.images)
        self._parts.append(pairs)
        self._hits += count_hits(output, micro.labels)

    def score_all(self) -> None:
        """Make a score of the images there are."""
        self._settings = replace(self._settings, images_per_score=self.images)

    def finished(self) -> BatchScores:
        scores: tuple[SiteScore, ...] = ()
        if self.images == self._settings.score_images:
            sites = enumerate(zip(*self._parts, strict=True))
            scores = tuple(
                score_pair(self._number, site, parts, self._settings) for site, parts in sites
            )
        return BatchScores(
            self._number,
            self.images,
            scores,
            self._hits.labelled,
            self._hits.top1,
            self._hits.top5,
            time.perf_counter() - self._started,
        )
