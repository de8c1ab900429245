"""The rows that measuring gives: a site, its score on a batch, and a batch's scores.

Free of torch, so that storing and reading need no numerics library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Whether a site's output goes on as a value, or only scales another one.
Role = Literal["main", "gate"]

#: What became of a site's score. Only ``ok`` rows carry an affinity.
Status = Literal["ok", "constant", "nonfinite", "out_of_range", "failed"]

#: What a reader should know about a row, whatever its status.
Flag = Literal["constant", "dead", "nonfinite", "few_images", "ridge"]


@dataclass(frozen=True, slots=True)
class Site:
    """One activation site: one call of one activation function in a forward pass."""

    #: Module path and call number, such as ``layer1.0.relu#2``.
    site_name: str
    #: The activation function, such as ``relu``.
    activation: str
    #: Which call of this activation at this path, counting from 1.
    call: int
    #: Activations on the longest path from the input to here, this one included. Parallel
    #: branches share a depth.
    graph_depth: int
    #: ``gate`` where the output only scales another value (squeeze-excite, GLU), else ``main``.
    role: Role
    #: Which of its block's activation calls it is, counting from 1; 1 outside of blocks.
    repeat: int
    #: The meaning of the input's axes, such as ``N,C,*,*``.
    layout: str
    #: Sizes of the axes that are pooled, such as ``56x56``; empty for a vector an image.
    spatial: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteScore:
    """One row: one activation site on one batch of images, with every metric.

    The metrics' definitions, ranges and units are declared beside them, in ``survey.metrics``.
    """

    #: Which batch of ``images_per_score`` images, counting from 0.
    batch: int
    #: Which activation call of the forward pass, counting from 0 in execution order.
    site: int
    #: Module path and call number, such as ``layer1.0.relu#2``.
    site_name: str
    #: The activation function, such as ``relu``.
    activation: str
    #: Which call of this activation at this path, counting from 1.
    call: int
    #: Activations on the longest path from the input to here, this one included.
    graph_depth: int
    #: ``main``, or ``gate`` for squeeze-excite and GLU gates.
    role: Role
    #: Which of its block's activation calls it is, counting from 1.
    repeat: int
    #: The meaning of the input's axes, such as ``N,C,*,*``.
    layout: str
    #: Sizes of the axes that are pooled, such as ``56x56``.
    spatial: str
    #: Channels c: columns of the pooled pair; None where it could not be pooled.
    channels: int | None
    #: Images n: rows of the pooled pair.
    images: int
    #: The affinity score in [0, 1]; None unless ``status`` is ``ok``.
    affinity: float | None
    #: What became of the score.
    status: Status
    #: Why there is no score, in a sentence.
    reason: str | None
    #: What the formula gave, also where it left [0, 1].
    raw_affinity: float | None
    #: The affinity score without shrinkage; None where there are no more images than channels.
    affinity_plain: float | None = None
    #: Linear CKA of input and output, as published (biased).
    cka: float | None = None
    #: Linear CKA from unbiased estimates.
    cka_debiased: float | None = None
    #: Frobenius norm of input minus output, as published: grows as sqrt(n c).
    norm: float | None = None
    #: The norm over sqrt(n c).
    norm_per_element: float | None = None
    #: The norm over the input's own.
    norm_relative: float | None = None
    #: Fraction of the unpooled input's values within 1e-3 of zero.
    sparsity_before: float | None = None
    #: Fraction of the unpooled output's values within 1e-3 of zero.
    sparsity_after: float | None = None
    #: After minus before.
    sparsity_change: float | None = None
    #: Mean over images of the entropy of the pooled input's histogram, plus log c, in nats.
    entropy_before: float | None = None
    #: The same of the pooled output.
    entropy_after: float | None = None
    #: After minus before.
    entropy_change: float | None = None
    #: R2 of a linear fit from input to output on the images it was fitted on, as published.
    r2: float | None = None
    #: Share of the output's variance that a linear fit explains on images it was not fitted on.
    r2_heldout: float | None = None
    #: Mean over channels of the pooled input's variance.
    input_variance: float | None
    #: Mean over channels of the pooled output's variance.
    output_variance: float | None
    #: Fraction of channels whose pooled output is the same for every image.
    constant_fraction: float | None
    #: What a reader should know: any of the names of ``Flag``.
    flags: tuple[Flag, ...]
    #: Why a metric other than the affinity has no value: ``name: reason``, one each. Empty where
    #: the pair itself is no good (not finite, not poolable): ``reason`` says it then.
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchScores:
    """All that one batch of images gave: one score a site, and the accuracy counts."""

    #: Which batch, counting from 0.
    batch: int
    #: Images in it; fewer than ``images_per_score`` only in the last one, which is not scored.
    images: int
    #: One row a site in execution order; empty for a partial last batch.
    scores: tuple[SiteScore, ...]
    #: Images whose label was given and fits the model's outputs.
    labelled: int
    #: Labelled images whose label is the largest output.
    top1_hits: int
    #: Labelled images whose label is among the five largest outputs.
    top5_hits: int
    #: Seconds from the first image in to the last score out.
    seconds: float
