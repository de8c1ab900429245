"""The frozen values that cross a room's door: settings, site scores, batch scores.

Free of torch, so that planning, storing and reading need no numerics library.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, get_args

from survey.errors import SettingsError, UnknownName

Shrinkage = Literal["ledoit-wolf", "none"]
Ridge = Literal["absolute", "relative"]

#: How an n x ... tensor becomes an n x c matrix; see ``survey.pooling``.
Pooling = Literal["mean", "pre", "sum", "flatten", "public_code"]

#: Whether a site's output goes on as a value, or only scales another one.
Role = Literal["main", "gate"]

#: What became of a site's score. Only ``ok`` rows carry an affinity.
Status = Literal["ok", "constant", "nonfinite", "out_of_range", "failed"]

#: What a reader should know about a row, whatever its status.
Flag = Literal["constant", "dead", "nonfinite", "few_images", "ridge"]

#: Raised whenever a change moves any number; part of every job's key.
MEASURING_VERSION = 2

#: The largest whole number of a setting: what every store and library can hold.
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class MeasureSettings:
    """Everything that determines the numbers, besides the model and the images.

    Parameters
    ----------
    images_per_score : int
        Images n in one batch score, at least 2. The paper uses 512.
    micro_batch : int
        Images in one forward pass, at least 1. Bounds the memory; moves scores in their last bits.
    shrinkage : {"ledoit-wolf", "none"}
        Covariance estimator. ``none`` divides by n - 1 and needs n well above the channels.
    ridge : {"absolute", "relative"}
        ``absolute`` adds 1e-6 to every variance, as published; ``relative`` adds 1e-6 of the
        mean variance, for sites whose variances are far below 1e-4.
    pooling : {"mean", "pre", "sum", "flatten", "public_code"}
        ``mean`` activates, then averages over space; ``pre`` averages, then activates
        (Definition 3.1 taken literally); ``sum`` activates, then sums; ``flatten`` keeps every
        position as a column of its own; ``public_code`` averages the axes that the published
        script averages, whatever they mean.
    precision : float, optional
        Measuring ends as soon as the standard error over batches is at most this at every site;
        without one, every image is measured. Affinities range from 0 to 1.
    least_batches : int
        Batches measured before a precision counts as reached, at least 2: a standard error from
        a few scores is itself a guess.

    Raises
    ------
    SettingsError
        If a value is not allowed.
    """

    images_per_score: int = 512
    micro_batch: int = 64
    shrinkage: Shrinkage = "ledoit-wolf"
    ridge: Ridge = "absolute"
    pooling: Pooling = "mean"
    precision: float | None = None
    least_batches: int = 8

    def __post_init__(self) -> None:
        _require_int("images_per_score", self.images_per_score, 2)
        _require_int("micro_batch", self.micro_batch, 1)
        _require_choice("shrinkage", self.shrinkage, get_args(Shrinkage))
        _require_choice("ridge", self.ridge, get_args(Ridge))
        _require_choice("pooling", self.pooling, get_args(Pooling))
        _require_int("least_batches", self.least_batches, 2)
        _require_precision(self.precision)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> MeasureSettings:
        """Build settings from plain values, refusing names that do not exist."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in known:
                raise UnknownName("setting", name, known)
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, in declared order."""
        return dataclasses.asdict(self)


def _require_precision(value: object) -> None:
    if value is None:
        return
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0.0 < float(value) < 1.0:  # type: ignore[arg-type]
        raise SettingsError(
            f"precision is {value!r}, must be a number between 0 and 1, neither included",
            hint="it is the standard error of a mean affinity, such as 0.005",
        )


def _require_int(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SettingsError(
            f"{name} is {value!r}, must be a whole number of at least {least}",
            hint=f"a score compares distributions of images: set {name} to {max(least, 512)} or so"
            if name == "images_per_score"
            else None,
        )
    if value > _MOST:
        raise SettingsError(f"{name} is {value}, must be at most {_MOST}")


def _require_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingsError(f"{name} is {value!r}, must be one of {', '.join(allowed)}")


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
