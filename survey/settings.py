"""The settings of measuring: what determines the numbers, besides model and images.

Free of torch, so that planning, storing and reading need no numerics library.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, get_args

from survey.errors import SettingsError, UnknownName
from survey.text import shortened

Shrinkage = Literal["ledoit-wolf", "none"]
Ridge = Literal["absolute", "relative"]

#: How an n x ... tensor becomes an n x c matrix; see ``MeasureSettings``.
Pooling = Literal["mean", "pre", "sum", "flatten", "public_code"]

#: Images in one score by default, as in the paper.
USUAL_IMAGES = 512

#: Stands for as many images in one score as the network needs, see ``survey.few_images``, and in
#: one forward pass as the device is best fed with.
AUTO: Literal["auto"] = "auto"

#: Images in one forward pass by default: on a processor few, which its caches take; on an
#: accelerator many, as the host takes as long to enqueue a pass of few.
PROCESSOR_PASS, ACCELERATOR_PASS = 64, 512

#: Raised whenever a change moves any number; part of every job's key.
MEASURING_VERSION = 3

#: The least number of batches that a precision may be reached with; see ``survey.stopping``.
FEWEST_BATCHES = 10

#: The largest whole number of a setting: what every store and library can hold.
_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class MeasureSettings:
    """Everything that determines the numbers, besides the model and the images.

    Parameters
    ----------
    images_per_score : int or "auto"
        Images n in one batch score, at least 2. The paper uses 512. ``auto`` stands for one more
        than the channels of the network's widest site, for 512 at least and for all images at
        most; a survey's plan, and ``measure``, put the number in its place.
    micro_batch : int or "auto"
        Images in one forward pass, at least 1. Bounds the memory; moves scores in their last bits.
        ``auto`` stands for 64 on a processor and for 512 on an accelerator; where memory is short
        a scan halves them, and ``survey.measure`` does not.
    shrinkage : {"ledoit-wolf", "none"}
        Covariance estimator. ``none`` divides by n - 1 and needs n well above the channels.
    ridge : {"absolute", "relative"}
        ``relative`` adds 1e-6 of the mean variance to every variance, so that scores do not depend
        on the scale of the activations; ``absolute`` adds 1e-6, as published, which decides the
        score where variances are below 1e-4.
    pooling : {"mean", "pre", "sum", "flatten", "public_code"}
        ``mean`` activates, then averages over space; ``pre`` averages, then activates
        (Definition 3.1 taken literally); ``sum`` activates, then sums; ``flatten`` keeps every
        position as a column of its own; ``public_code`` averages the axes that the published
        script averages, the last two of four and the last of three, whatever they mean.
    precision : float, optional
        Measuring ends as soon as the standard error over batches is at most this at every site;
        without one, every image is measured. Affinities range from 0 to 1. Each site by itself,
        the 95 % interval of its mean then reaches some 2.3 times as far to either side after ten
        batches, 2 times after sixty, and further to one where scores are skewed; see
        ``survey.stopping``.
    least_batches : int
        Batches measured before a precision counts as reached, at least 2. With a precision,
        fewer than ten are ten: a standard error from a few scores is itself a guess.
    metrics : sequence of str or str, optional
        The metrics that are computed, by their columns, such as ``("affinity", "cka")`` or
        ``"affinity,cka"``; the others have no value. The affinity is always among them. None
        stands for every metric there is.

    Raises
    ------
    SettingsError
        If a value is not allowed.
    """

    images_per_score: int | Literal["auto"] = USUAL_IMAGES
    micro_batch: int | Literal["auto"] = AUTO
    shrinkage: Shrinkage = "ledoit-wolf"
    # Keys left the default out, which was the absolute one.
    ridge: Ridge = field(default="relative", metadata={"unrecorded": "absolute"})
    pooling: Pooling = "mean"
    precision: float | None = None
    least_batches: int = FEWEST_BATCHES
    metrics: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.images_per_score != AUTO:
            _require_int("images_per_score", self.images_per_score, 2)
        if self.micro_batch != AUTO:
            _require_int("micro_batch", self.micro_batch, 1)
        _require_choice("shrinkage", self.shrinkage, get_args(Shrinkage))
        _require_choice("ridge", self.ridge, get_args(Ridge))
        _require_choice("pooling", self.pooling, get_args(Pooling))
        _require_int("least_batches", self.least_batches, 2)
        _require_precision(self.precision)
        if self.precision is not None:
            least = max(self.least_batches, FEWEST_BATCHES)
            object.__setattr__(self, "least_batches", least)
        object.__setattr__(self, "metrics", _metric_names(self.metrics))

    @property
    def score_images(self) -> int:
        """Images in one score, as a number.

        Raises
        ------
        SettingsError
            If it is not chosen yet.
        """
        if self.images_per_score == AUTO:
            raise SettingsError("images_per_score is 'auto', and no network has chosen its number")
        return self.images_per_score

    def pass_images(self, *, accelerator: bool) -> int:
        """Return the images in one forward pass on an accelerator, or on a processor."""
        if self.micro_batch != AUTO:
            return self.micro_batch
        return ACCELERATOR_PASS if accelerator else PROCESSOR_PASS

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> MeasureSettings:
        """Build settings from plain values.

        Raises
        ------
        UnknownName
            If there is no setting of a name.
        SettingsError
            If a value is not allowed.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in known:
                raise UnknownName("setting", name, known)
        return cls(**values)

    @classmethod
    def from_record(cls, values: dict[str, Any]) -> MeasureSettings:
        """Build settings from a stored record, which may be older than a setting or its default."""
        return cls.from_dict(
            {each.name: unrecorded(each) for each in dataclasses.fields(cls)} | values
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, in declared order."""
        return dataclasses.asdict(self)


def require_settings(value: object) -> MeasureSettings:
    """Return the settings that a caller gave, the usual ones for None.

    Raises
    ------
    SettingsError
        If they are of another type.
    """
    if value is None:
        return MeasureSettings()
    if not isinstance(value, MeasureSettings):
        raise SettingsError(
            f"settings is {shortened(repr(value))}, must be MeasureSettings",
            hint="MeasureSettings(images_per_score=512), from survey",
        )
    return value


def unrecorded(field: dataclasses.Field[Any]) -> Any:
    """Return what a key or a stored record means that leaves a field out.

    That is the field's default; where the default has changed since, the one of then, which the
    field's metadata hold as ``unrecorded``.
    """
    return field.metadata.get("unrecorded", field.default)


def _metric_names(value: object) -> tuple[str, ...] | None:
    """Return names of metrics in a fixed order, each once, of which ``survey.metrics`` knows all.

    Raises
    ------
    SettingsError
        If they are no names, or the affinity is not among them.
    """
    if value is None:
        return None
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(each, str) for each in names):
        raise SettingsError(
            f"metrics is {shortened(repr(value))}, must be names of metrics",
            hint='write ["affinity", "cka"]; docs/metrics.md lists all',
        )
    kept = {each.strip() for each in names}
    if "affinity" not in kept:
        raise SettingsError(
            f"metrics is {', '.join(sorted(kept)) or 'empty'}, must have affinity among them:"
            " status and precision are the affinity's",
            hint="did you mean affinity?"
            if get_close_matches("affinity", kept)
            else "name it too: affinity,cka",
        )
    return tuple(sorted(kept))


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
            hint=f"a score compares distributions of images: set {name} to {USUAL_IMAGES} or so, or"
            " to 'auto'"
            if name == "images_per_score"
            else f"set micro_batch to {PROCESSOR_PASS} or so, or to 'auto'"
            if name == "micro_batch"
            else None,
        )
    if value > _MOST:
        raise SettingsError(f"{name} is {value}, must be at most {_MOST}")


def _require_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SettingsError(f"{name} is {value!r}, must be one of {', '.join(allowed)}")
