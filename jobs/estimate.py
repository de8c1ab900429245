"""How long a job may take: from runs of the same architecture, else from its arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

#: Multiply-accumulates a CPU core does in a second, in billions, where nothing was measured yet.
DEFAULT_RATE = 10.0

#: How far the truth may lie from an estimate, as a factor either way.
FROM_HISTORY, FROM_RATE, FROM_DEFAULT = 1.3, 2.0, 4.0


@dataclass(frozen=True, slots=True)
class Measured:
    """What one earlier run took."""

    #: Source and architecture.
    full_name: str
    #: Billions of multiply-accumulates for one image.
    gflops: float
    #: Images it measured.
    images: int
    #: Seconds it took.
    seconds: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds a job may take."""

    #: The likeliest value.
    seconds: float
    #: How far the truth may lie, as a factor either way.
    factor: float


def estimate(full_name: str, gflops: float, images: int, history: Sequence[Measured]) -> Estimate:
    """Estimate a job's seconds.

    Parameters
    ----------
    full_name : str
        Source and architecture.
    gflops : float
        Billions of multiply-accumulates for one image.
    images : int
        Images to measure.
    history : sequence of Measured
        Earlier runs on this machine.
    """
    usable = [run for run in history if run.images and run.seconds > 0]
    same = [run.seconds / run.images for run in usable if run.full_name == full_name]
    if same:
        return Estimate(median(same) * images, FROM_HISTORY)
    rates = [run.gflops * run.images / run.seconds for run in usable if run.gflops]
    if rates:
        return Estimate(gflops * images / median(rates), FROM_RATE)
    return Estimate(gflops * images / DEFAULT_RATE, FROM_DEFAULT)
