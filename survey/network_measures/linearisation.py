"""Linearisation without training: accuracy as more and more channels act affinely.

Every activation of every channel has a least-squares affine map from its input to its output on
data, with a squared correlation. The k % of all channels with the highest are replaced by these
maps, for k = 0, 5, .. 100, and the accuracy of each network so changed is set against its path
length, in which replaced channels count as linear. Maps are fitted once, on the network as it is,
and nothing is trained: images at even places fit, those at odd places, where they have a label,
are classified.

The curve's summary is the path length at which 90 % of the accuracy is left. It is a measure of
this survey, in no paper: that of Mehmeti-Göpel and Disselhoff 2023 (arXiv:2211.17180) trains with
a penalty on every channel that is not linear.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from survey.network_measures.base import (
    CurvePoint,
    NetworkQuantity,
    NetworkScore,
    SampledMeasure,
    Steps,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch
    from torch import nn

    from survey.network_measures.sample import ImageSample

#: Images: half of them fit, half are classified.
IMAGES = 512

#: Shares of the channels that are replaced, in percent.
PERCENTAGES = tuple(range(0, 101, 5))

#: The part of the accuracy that is left at the path length that sums the curve up.
KEPT = 0.9

#: Resamples of the bootstrap over classified images, and its seed.
RESAMPLES, SEED = 200, 0


class _Undefined(Exception):
    """The reason, as half a sentence, for which there is no curve."""


def linearisation(model: nn.Module, sample: ImageSample) -> Steps:
    """Compute the accuracy of a network against its path length, as channels are linearised.

    Parameters
    ----------
    model : torch.nn.Module
        In eval mode. It is not modified.
    sample : ImageSample
        n images with labels.

    Yields
    ------
    float
        The fraction of the forward passes that are done.

    Returns
    -------
    dict of str to NetworkScore
        ``linearised_path_length`` with its standard error over the classified images and with the
        curve of accuracy against normalised path length, a point for each of ``PERCENTAGES``; or
        the reason for having none.
    """
    import torch

    from survey.errors import CaptureError
    from survey.network_measures.affine_channels import AffineChannels, AffineOrder
    from survey.network_measures.channel_moments import SiteMoments

    lengths, hits = [], []
    try:
        fitted, classified, labels = _halves(sample)
        passes = len(fitted) + len(PERCENTAGES) * len(classified)
        moments = SiteMoments(model)
        for done, places in enumerate(fitted, 1):
            moments.add(sample.inputs(places))
            yield done / passes
        order = AffineOrder(moments.of_sites())
        for percentage in PERCENTAGES:
            replaced = order.replaced(percentage)
            lengths.append(_path_length(model, sample, replaced))
            changed = AffineChannels(model, order, replaced)
            for places in classified:
                hits.append(_hits(changed.outputs(sample.inputs(places)), labels[places]))
                yield (len(fitted) + len(hits)) / passes
    except (CaptureError, _Undefined) as error:
        return MEASURE.without_value(str(error))
    known = labels[torch.cat([*classified])]
    return {MEASURE.quantities[0].name: _score(lengths, torch.cat(hits), known, len(sample))}


def _halves(
    sample: ImageSample,
) -> tuple[Sequence[torch.Tensor], Sequence[torch.Tensor], torch.Tensor]:
    """Return the places of each pass to fit on and of each to classify, and all labels."""
    import torch

    if sample.labels is None:
        raise _Undefined("it needs images with labels")
    labels = sample.labels.cpu()
    places = torch.arange(len(sample))
    odd = places[1::2]
    classified = odd[labels[odd] >= 0]
    if not len(classified):
        raise _Undefined("it needs two images or more, with labels that the network knows")
    size = sample.micro_batch
    return places[::2].split(size), classified.split(size), labels


def _path_length(
    model: nn.Module, sample: ImageSample, replaced: Mapping[str, torch.Tensor]
) -> float:
    """Return the normalised path length with some channels counted as linear."""
    import torch

    from survey.network_measures.path_length import path_length

    active = {name: ~chosen[None] for name, chosen in replaced.items()}
    scores = path_length(model, sample.inputs(torch.tensor([0, 1])), active)
    length = scores["path_length_normalised"]
    if length.value is None:
        raise _Undefined(str(length.reason))
    return length.value


def _hits(output: object, labels: torch.Tensor) -> torch.Tensor:
    """Return 1 for each image whose label is the greatest output, and 0 for the others."""
    from survey.accuracy import logits_of

    if (logits := logits_of(output)) is None:
        raise _Undefined("it returns no row of outputs for each image")
    if int(labels.max()) >= logits.shape[1]:
        raise _Undefined(f"it has {logits.shape[1]} outputs, and a label is {int(labels.max())}")
    logits = logits.cpu()
    right = (logits.argmax(1) == labels) & logits.isfinite().all(1)
    return right.double()


def _score(
    lengths: Sequence[float], hits: torch.Tensor, labels: torch.Tensor, n: int
) -> NetworkScore:
    """Return the curve and its summary from the hits of h images, one network after the other."""
    import torch

    h = len(labels)
    hits = hits.view(len(PERCENTAGES), h)
    accuracy = hits.mean(1)
    errors = (accuracy * (1 - accuracy) / h).sqrt()
    most_frequent = labels.bincount().max() / h
    if accuracy[0] - 2 * errors[0] <= most_frequent:
        reason = f"its accuracy of {accuracy[0]:.3f} is not above that of its most frequent class"
        return NetworkScore(None, reason, samples=h)
    generator = torch.Generator().manual_seed(SEED)
    drawn = torch.randint(h, (RESAMPLES, h), generator=generator)
    spread = [_crossing(lengths, hits[:, places].mean(1).tolist()) for places in drawn]
    curve = zip(lengths, accuracy.tolist(), errors.tolist(), strict=True)
    return NetworkScore(
        _crossing(lengths, accuracy.tolist()),
        standard_error=torch.tensor(spread).std().item(),
        samples=h,
        details={
            "accuracy": accuracy[0].item(),
            "kept": KEPT,
            "percentages": list(PERCENTAGES),
            "fitted": (n + 1) // 2,
            "seed": SEED,
            "resamples": RESAMPLES,
        },
        curve=tuple(CurvePoint(*point) for point in curve),
    )


def _crossing(lengths: Sequence[float], accuracy: Sequence[float]) -> float:
    """Return the length at which the accuracy first falls below its part; the last if never."""
    least = KEPT * accuracy[0]
    for i, below in enumerate(accuracy):
        if below < least:
            left = (least - below) / (accuracy[i - 1] - below)
            return lengths[i] + left * (lengths[i - 1] - lengths[i])
    return lengths[-1]


_QUANTITIES = (
    NetworkQuantity(
        name="linearised_path_length",
        sentence=(
            f"The path length at which {KEPT:.0%} of the accuracy is left, as the most affine "
            "channels are replaced by affine maps."
        ),
        formula=f"path_length_normalised(k) where accuracy(k) = {KEPT} * accuracy(0)",
        unit="activations",
        low=0.0,
        high=math.inf,
        source="of this survey, in no paper",
    ),
)

MEASURE = SampledMeasure(
    name="linearisation",
    version=2,
    quantities=_QUANTITIES,
    images=IMAGES,
    # Half of the images pass once with moments, the others once for each percentage; passes that
    # are followed take 1.3 times as long as others.
    passes=lambda sites: 1.3 * (1 + len(PERCENTAGES)) / 2,  # noqa: ARG005 - whatever the sites
    compute=linearisation,
)
