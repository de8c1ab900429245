"""The declaration of a measure of a whole network, and its results.

A measure gives a few quantities, each under a name of its own. A quantity that has no value says
why. One of the structure alone reads no image; one that reads images gives its progress on the way
and can be computed with fewer of them at once. This module imports no torch: measures import it
where they compute.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from survey.errors import SettingsError

if TYPE_CHECKING:
    import torch
    from torch import nn

    from survey.network_measures.sample import ImageSample


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One point of a curve."""

    x: float
    #: None where there is no value.
    y: float | None
    #: Of ``y``; None where it is exact, or none is known.
    standard_error: float | None = None


@dataclass(frozen=True, slots=True)
class NetworkScore:
    """One quantity of one network, or the reason for having none."""

    #: Its value; None where there is none.
    value: float | None
    #: Why there is none, as half a sentence.
    reason: str | None = None
    #: Its standard error; None where it is exact, or none is known.
    standard_error: float | None = None
    #: How many images, lines or pairs it was estimated from; None where it reads none.
    samples: int | None = None
    #: Conventions, settings and what else belongs to the value: plain values by name.
    details: Mapping[str, object] = field(default_factory=dict)
    #: The version of the measure that gave it; ``measure_network`` sets it.
    version: int | None = None
    #: The curve that the value sums up, in order; empty where it is of none.
    curve: tuple[CurvePoint, ...] = ()


def conventions(details: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the conventions that a value rests on, of ``NetworkScore.details``, a text each."""
    held = details.get("conventions")
    return tuple(f"{name}: {text}" for name, text in held.items()) if isinstance(held, dict) else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkQuantity:
    """One number of a whole network: what it is, its range and its unit.

    Raises
    ------
    SettingsError
        If a field is not what it must be.
    """

    #: Small letters, digits and underscores.
    name: str
    #: What it is, as a sentence.
    sentence: str
    #: How it is computed.
    formula: str
    #: ``1`` for a plain number, or what it counts.
    unit: str
    #: The least and the greatest value; infinite where there is none.
    low: float
    high: float
    #: Where the definition comes from.
    source: str

    def __post_init__(self) -> None:
        problems = {
            "its name is not made of small letters, digits and underscores": (
                re.fullmatch("[a-z][a-z0-9_]*", self.name) is None
            ),
            "its sentence does not end with a full stop": not self.sentence.endswith("."),
            "its range is empty": not self.low < self.high,
        }
        for problem, is_so in problems.items():
            if is_so:
                raise SettingsError(f"quantity {self.name!r}: {problem}")


#: The scores of a measure by quantity, after the fractions of its work that are done on the way.
Steps = Generator[float, None, Mapping[str, NetworkScore]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    """The quantities that one file declares."""

    #: Its name.
    name: str
    #: Counts changes of what it gives for the same network: values of others are computed again.
    version: int
    #: Its numbers.
    quantities: tuple[NetworkQuantity, ...]

    def without_value(self, reason: str) -> dict[str, NetworkScore]:
        """Return a score of each quantity that has no value, all for one reason."""
        score = NetworkScore(None, reason, version=self.version)
        return dict.fromkeys((quantity.name for quantity in self.quantities), score)


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuralMeasure(_Declared):
    """A measure of a network's graph, whatever the images."""

    #: Returns the score of each quantity by name, given a network in eval mode and one image
    #: batch, whose values do not matter.
    compute: Callable[[nn.Module, torch.Tensor], Mapping[str, NetworkScore]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledMeasure(_Declared):
    """A measure on images. Its settings are constants of its file; a change is a new version."""

    #: The number of images it asks for, the first of a dataset; it takes fewer where there are.
    images: int
    #: The forward passes that it takes as long as, for each of its images, given the number of
    #: activation sites.
    passes: Callable[[int], float]
    #: Computes it of a network in eval mode, ``ImageSample.micro_batch`` images at once.
    compute: Callable[[nn.Module, ImageSample], Steps]
    #: The greatest side of an image, in pixels, at which it is done in time; None for any.
    most_size: int | None = None
    #: The measure to ask for beyond it.
    alternative: str | None = None

    def refusal(self, size: int) -> str | None:
        """Return why it is not computed of images of a size; None where it is."""
        if self.most_size is None or size <= self.most_size:
            return None
        return f"{self.name} is computed up to {self.most_size} pixels, not at {size}"


NetworkMeasure = StructuralMeasure | SampledMeasure
