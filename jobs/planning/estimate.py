"""Estimates of a job's time: from runs of the same architecture, else from its arithmetic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

import numpy as np
from scipy.optimize import nnls

from catalog.home import Home
from catalog.models.cost_table import counted
from catalog.store.queries import run_costs
from catalog.store.records import RunState
from jobs.planning.job import Job

#: Seconds for a billion multiply-accumulates, and for the metrics of one site on one batch, on one
#: core of a CPU where nothing was measured yet.
DEFAULT_SECONDS = (0.1, 0.1)

#: Work of a network that is not in the cost table, in billions of multiply-accumulates an image.
DEFAULT_GFLOPS = 4.0

#: Sites of a network that is not in the cost table.
DEFAULT_SITES = 50

#: How far the truth may lie from an estimate, as a factor either way.
FROM_HISTORY, FROM_RATE, FROM_DEFAULT = 1.3, 2.0, 4.0


@dataclass(frozen=True, slots=True)
class Measured:
    """The time and memory of an earlier run."""

    #: Source and architecture.
    full_name: str
    #: Billions of multiply-accumulates for one image.
    gflops: float
    #: Images it measured.
    images: int
    #: Seconds it took.
    seconds: float
    #: Sites times batches.
    scores: int = 0
    #: Its device: ``cpu`` or ``cuda``.
    device: str = "cpu"
    #: The most bytes a worker held.
    peak_memory: int | None = None


@dataclass(frozen=True)
class History:
    """The time and memory of earlier runs.

    Parameters
    ----------
    runs : sequence of Measured
        The runs.
    """

    runs: Sequence[Measured] = ()

    @cached_property
    def by_network(self) -> Mapping[str, float]:
        """Seconds an image, by source and architecture: the median of its runs."""
        seconds: defaultdict[str, list[float]] = defaultdict(list)
        for run in self._usable:
            seconds[run.full_name].append(run.seconds / run.images)
        return {name: median(values) for name, values in seconds.items()}

    @cached_property
    def unit_seconds(self) -> tuple[float, float] | None:
        """Seconds for a billion multiply-accumulates, and for one score, over all runs.

        Non-negative least squares, relative to each run's time: small networks take longer to
        score than to run, large ones do not.
        """
        runs = [run for run in self._usable if run.gflops or run.scores]
        if not runs:
            return None
        work = np.array([(run.gflops * run.images, run.scores) for run in runs])
        a_gflop, a_score = nnls(
            work / np.array([[run.seconds] for run in runs]), np.ones(len(runs))
        )[0]
        return float(a_gflop), float(a_score)

    @cached_property
    def memory_by_network(self) -> Mapping[str, int]:
        """The most bytes a worker held, by source and architecture."""
        memory: dict[str, int] = {}
        for run in self.runs:
            if run.peak_memory:
                memory[run.full_name] = max(memory.get(run.full_name, 0), run.peak_memory)
        return memory

    @property
    def _usable(self) -> Iterable[Measured]:
        return (run for run in self.runs if run.images and run.seconds > 0)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds a job may take."""

    #: The likeliest value.
    seconds: float
    #: How far the truth may lie, as a factor either way.
    factor: float


@dataclass(frozen=True, slots=True)
class Amount:
    """The part of a job that is not measured yet."""

    #: Images to measure.
    images: int
    #: Billions of multiply-accumulates for one image.
    gflops: float
    #: Sites times batches, roughly.
    scores: int = 0


def estimate(full_name: str, amount: Amount, history: History) -> Estimate:
    """Estimate a job's seconds.

    Parameters
    ----------
    full_name : str
        Source and architecture.
    amount : Amount
        The part of it that is not measured yet.
    history : History
        Earlier runs on the same kind of device.
    """
    same = history.by_network.get(full_name)
    if same is not None:
        return Estimate(same * amount.images, FROM_HISTORY)
    known = history.unit_seconds
    a_gflop, a_score = known or DEFAULT_SECONDS
    seconds = a_gflop * amount.gflops * amount.images + a_score * amount.scores
    return Estimate(seconds, FROM_RATE if known else FROM_DEFAULT)


def history_of(home: Home, device: str) -> History:
    """Return the runs of a home on the CPU, or on GPUs."""
    runs = [Measured(**row) for row in run_costs(home).to_pylist()]
    return History([run for run in runs if run.device == device])


def seconds_of(
    jobs: Iterable[Job], states: Mapping[str, RunState], history: History
) -> dict[str, float]:
    """Return the seconds that jobs may still take, by run id."""
    return {
        job.run_id: estimate(job.full_name, amount_of(job, states), history).seconds for job in jobs
    }


def amount_of(job: Job, states: Mapping[str, RunState]) -> Amount:
    """Return the part of a job that is not durable yet."""
    state = states.get(job.run_id)
    images = max(0, job.images - (state.images + state.skipped_images if state else 0))
    # A network has about one activation for each layer with weights.
    scores = (job.facts.depth or DEFAULT_SITES) * images // job.settings.images_per_score
    return Amount(images, gflops_of(job), scores)


def gflops_of(job: Job) -> float:
    """Return the work of a job's network on one image, without building it.

    Counted at the network's default image size; the work grows as the image's area.
    """
    cost = counted(job.source, job.architecture)
    if cost is None:
        return DEFAULT_GFLOPS
    return cost.gflops * (job.transform.size / cost.size) ** 2
