"""The accuracy check: whether a run reaches the accuracy expected of its weights.

Wrong weights, a wrong normalisation or wrong labels give a network that runs and numbers that
look like any others; only its accuracy shows the mistake.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from catalog.models.base import Reported

#: Difference that is always allowed: decoding and resizing differ between libraries.
MARGIN = 0.005

#: Standard errors of the expected accuracy, on so many images, that are allowed besides.
STANDARD_ERRORS = 3.0


@dataclass(frozen=True, slots=True)
class Expectation:
    """The accuracy expected of a run."""

    #: Fraction recognised first, in [0, 1].
    top1: float
    #: Its source: ``declared`` by the survey, or the report's.
    source: str


def expectation(
    dataset: str, declared: float | None, reported: tuple[Reported, ...]
) -> Expectation | None:
    """Return the accuracy expected of a run; None where none is known.

    Parameters
    ----------
    dataset : str
        The dataset's full name. A report counts only on the dataset it was made for.
    declared : float or None
        The accuracy that the survey declares; it takes precedence over any report.
    reported : tuple of Reported
        The accuracies published for the weights. Only those of the network's outputs count.
    """
    if declared is not None:
        return Expectation(declared, "declared")
    kind = dataset.partition("[")[0].partition(":")[0]
    for report in reported:
        if report.protocol == "supervised" and report.dataset == kind:
            return Expectation(report.top1, report.source)
    return None


def suspicion(expected: Expectation | None, measured: float | None, images: int) -> str | None:
    """Return why a finished run is suspect, in a sentence; None where it is not.

    Parameters
    ----------
    expected : Expectation or None
        The accuracy expected of it.
    measured : float or None
        The fraction recognised first; None where no label fits the outputs.
    images : int
        Number of images measured.
    """
    if expected is None:
        return None
    if measured is None:
        return f"top-1 is unknown, expected {expected.top1:.4f}: no labels fit the outputs"
    deviation = math.sqrt(expected.top1 * (1 - expected.top1) / images)
    allowed = MARGIN + STANDARD_ERRORS * deviation
    if abs(measured - expected.top1) <= allowed:
        return None
    return (
        f"top-1 is {measured:.4f}, expected {expected.top1:.4f} ({expected.source}) within"
        f" {allowed:.4f}: wrong weights, normalisation or labels?"
    )
