"""The declaration of a metric, and the computation and check of its values.

A metric is a few quantities, each a column of the result with a range, a unit, a
direction, the changes of the data it does not see, and the fewest images it is defined for. A
quantity that has no value says why and takes no other quantity with it. From the declaration are
made the store's column, the tables for readers and the page on metrics. It imports no torch:
metrics import it where they compute.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from survey.errors import SettingsError
from survey.few_images import enough_images

if TYPE_CHECKING:
    from survey.metrics.pair import Pair

#: The changes of X and Y (n x c each) to which a quantity may be invariant.
INVARIANCES = {
    "images": "the rows of X and Y permuted alike",
    "pairing": "the rows of Y permuted alone",
    "channels": "the columns of X and Y permuted alike",
    "channels_output": "the columns of Y permuted alone",
    "rotation": "X and Y mapped by one orthogonal matrix",
    "rotation_input": "X mapped by an orthogonal matrix",
    "rotation_output": "Y mapped by an orthogonal matrix",
    "scale": "X and Y multiplied by one positive number",
    "scale_input": "X multiplied by a positive number",
    "scale_output": "Y multiplied by a positive number",
    "shift": "one vector added to every row of X and Y",
    "shift_input": "one vector added to every row of X",
    "shift_output": "one vector added to every row of Y",
    "swap": "X and Y exchanged",
}

#: Which end is closer to linear: ``higher`` is closer to an affine map, ``lower`` to the identity.
Direction = Literal["higher", "lower", "none"]

#: The greatest excess over the end of a range that counts as rounding.
ROUNDING = 1e-9


@functools.cache
def breakdowns() -> tuple[type[Exception], ...]:
    """Return the errors that linear algebra and the assignment raise in float64.

    That is for covariances that are singular (a constant input with a relative ridge) or overflow
    (values above 1e150).
    """
    import torch

    return (torch.linalg.LinAlgError, ValueError, ArithmeticError)


@dataclass(frozen=True, slots=True)
class NoValue:
    """A quantity that is not defined for a pair."""

    #: Why, as half a sentence.
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One column of the result: its computation, range, unit and invariances.

    Raises
    ------
    SettingsError
        If a field is not what it must be.
    """

    #: The column: small letters, digits and underscores.
    name: str
    #: What it is, as a sentence: the comment of the column too.
    sentence: str
    #: How it is computed from X, Y (n x c), their centred versions Xc, Yc and counts.
    formula: str
    #: ``1`` for a plain number, ``nat``, or ``of X`` for the unit of the activations.
    unit: str
    #: The least and the greatest value; infinite where there is none.
    low: float
    high: float
    #: Which end is closer to linear.
    direction: Direction
    #: The changes that leave it as it is: names of ``INVARIANCES``.
    invariances: frozenset[str]
    #: Where the definition comes from.
    source: str
    #: The fewest images it is defined for.
    least_images: int = 2
    #: Whether it also needs more images than channels.
    more_than_channels: bool = False
    #: Whether ``survey show --metrics`` and a model's page show it; files have every quantity.
    listed: bool = True
    #: Its heading on a page; by default its name.
    heading: str = ""
    #: Its value for a pair, or why it has none.
    compute: Callable[[Pair], float | NoValue]

    def __post_init__(self) -> None:
        problems = {
            "its name is not made of small letters, digits and underscores": (
                re.fullmatch("[a-z][a-z0-9_]*", self.name) is None
            ),
            "its sentence does not end with a full stop": not self.sentence.endswith("."),
            "its range is empty": not self.low < self.high,
            "its direction is unknown": self.direction not in get_args(Direction),
            "an invariance is unknown": not self.invariances <= set(INVARIANCES),
            "it needs fewer than two images": self.least_images < 2,
            "its computation cannot be called": not callable(self.compute),
        }
        for problem, is_so in problems.items():
            if is_so:
                raise SettingsError(f"quantity {self.name!r}: {problem}")

    @property
    def title(self) -> str:
        """Its heading on a page."""
        return self.heading or self.name.replace("_", " ")

    def minimum_images(self, channels: int) -> int:
        """Return the fewest images it is defined for, given c channels."""
        return max(self.least_images, enough_images(channels) if self.more_than_channels else 0)


@dataclass(frozen=True, slots=True)
class Metric:
    """The quantities that one file declares."""

    #: Its name.
    name: str
    #: Its columns.
    quantities: tuple[Quantity, ...]


def value(quantity: Quantity, pair: Pair) -> float | NoValue:
    """Return a quantity's value for a pair, in its declared range, or why it has none.

    Parameters
    ----------
    quantity : Quantity
        What to compute.
    pair : Pair
        Finite input and output; what quantities share stays in it.
    """
    if pair.constant is not None:
        return NoValue(pair.constant)
    least = quantity.minimum_images(pair.channels)
    if pair.images < least:
        return NoValue(f"needs {least} images for {pair.channels} channels, has {pair.images}")
    try:
        result = quantity.compute(pair)
    except breakdowns() as error:
        return NoValue(f"the formula cannot be evaluated: {error}")
    return result if isinstance(result, NoValue) else _within(quantity, result)


def _within(quantity: Quantity, number: float) -> float | NoValue:
    """Return a value within its range, or the reason for which it is none."""
    if not math.isfinite(number):
        return NoValue(f"the formula gives {number}, which is no number")
    kept = min(max(number, quantity.low), quantity.high)
    if abs(number - kept) > ROUNDING:
        return NoValue(f"the formula gives {number:.4g}, outside its range")
    return kept


def values(
    quantities: Iterable[Quantity], pair: Pair
) -> tuple[dict[str, float | None], tuple[str, ...]]:
    """Return the values of some quantities, and a note for each that has none.

    Parameters
    ----------
    quantities : iterable of Quantity
        What to compute, in order.
    pair : Pair
        Finite input and output.

    Returns
    -------
    numbers : dict
        Value by column; None where there is none.
    notes : tuple of str
        ``column: reason``.
    """
    numbers: dict[str, float | None] = {}
    notes: list[str] = []
    for quantity in quantities:
        result = value(quantity, pair)
        if isinstance(result, NoValue):
            notes.append(f"{quantity.name}: {result.reason}")
        numbers[quantity.name] = None if isinstance(result, NoValue) else result
    return numbers, tuple(notes)
