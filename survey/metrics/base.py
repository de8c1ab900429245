"""What every metric declares, and the one place where its value is computed and checked.

A metric is a handful of quantities, each a column of the result with a range, a unit, a
direction, the changes of the data it does not see, and the fewest images it is defined for. A
quantity that has no value says why and takes no other quantity with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import torch

from survey.metrics.pair import Pair

#: What the linear algebra and the assignment raise for covariances that are singular in float64
#: (a constant input with a relative ridge) or overflow (values above 1e150).
BREAKDOWNS = (torch.linalg.LinAlgError, ValueError, ArithmeticError)

#: A change of X and Y (n x c each) that a quantity may not see.
Invariance = Literal[
    "images",  # the rows of X and Y permuted alike
    "pairing",  # the rows of Y permuted alone
    "channels",  # the columns of X and Y permuted alike
    "channels_output",  # the columns of Y permuted alone
    "rotation",  # X and Y mapped by one orthogonal matrix
    "rotation_input",  # X mapped by an orthogonal matrix
    "rotation_output",  # Y mapped by an orthogonal matrix
    "scale",  # X and Y multiplied by one positive number
    "scale_input",  # X multiplied by a positive number
    "scale_output",  # Y multiplied by a positive number
    "shift",  # one vector added to every row of X and Y
    "shift_input",  # one vector added to every row of X
    "shift_output",  # one vector added to every row of Y
    "swap",  # X and Y exchanged
]

#: Which end is closer to linear: ``higher`` is closer to an affine map, ``lower`` to the identity.
Direction = Literal["higher", "lower", "none"]

#: How far rounding may carry a value over the end of its range before it is no value.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class NoValue:
    """A quantity that is not defined for a pair."""

    #: Why, as half a sentence.
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One column of the result: how it is computed and what is true of it."""

    #: The column.
    name: str
    #: What it is, as a sentence.
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
    #: What it does not see.
    invariances: frozenset[Invariance]
    #: Where the definition comes from.
    source: str
    #: The fewest images it is defined for.
    least_images: int
    #: Whether it also needs more images than channels.
    more_than_channels: bool = False
    #: Its value for a pair, or why it has none.
    compute: Callable[[Pair], float | NoValue]

    def minimum_images(self, channels: int) -> int:
        """Return the fewest images it is defined for, given c channels."""
        return max(self.least_images, channels + 1 if self.more_than_channels else 0)


@dataclass(frozen=True, slots=True)
class Metric:
    """Quantities that share one idea and one file."""

    #: What the idea is called.
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
    least = quantity.minimum_images(pair.channels)
    if pair.images < least:
        return NoValue(f"needs {least} images for {pair.channels} channels, has {pair.images}")
    try:
        found = quantity.compute(pair)
    except BREAKDOWNS as error:
        return NoValue(f"the formula cannot be evaluated: {error}")
    return found if isinstance(found, NoValue) else _within(quantity, found)


def _within(quantity: Quantity, found: float) -> float | NoValue:
    """Return a value in its range, or say that it is outside."""
    if not math.isfinite(found):
        return NoValue(f"the formula gives {found}, which is no number")
    kept = min(max(found, quantity.low), quantity.high)
    if abs(found - kept) > ROUNDING:
        return NoValue(f"the formula gives {found:.4g}, outside its range")
    return kept


def values(quantities: Iterable[Quantity], pair: Pair) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the values of those quantities that have one, and a note for each that has none.

    Parameters
    ----------
    quantities : iterable of Quantity
        What to compute, in order.
    pair : Pair
        Finite input and output.

    Returns
    -------
    found : dict
        Value by column.
    notes : tuple of str
        ``column: reason``.
    """
    found: dict[str, float] = {}
    notes: list[str] = []
    for quantity in quantities:
        outcome = value(quantity, pair)
        if isinstance(outcome, NoValue):
            notes.append(f"{quantity.name}: {outcome.reason}")
        else:
            found[quantity.name] = outcome
    return found, tuple(notes)
