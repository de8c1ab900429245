"""How long a job may take: from runs of the same architecture, else from its arithmetic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from catalog.home import Home
from catalog.models.costs import counted
from catalog.queries import run_costs
from catalog.runs import RunState
from jobs.job import Job

#: Multiply-accumulates a CPU core does in a second, in billions, where nothing was measured yet.
DEFAULT_RATE = 10.0

#: Work of a network nobody counted, in billions of multiply-accumulates an image.
DEFAULT_GFLOPS = 4.0

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
    #: What it was measured on: ``cpu`` or ``cuda``.
    device: str = "cpu"
    #: The most bytes a worker held.
    peak_memory: int | None = None


@dataclass(frozen=True)
class History:
    """What earlier runs took.

    Parameters
    ----------
    runs : sequence of Measured
        The runs.
    """

    runs: Sequence[Measured] = ()

    @cached_property
    def by_network(self) -> Mapping[str, float]:
        """Seconds an image, by source and architecture: the median of its runs."""
        found: defaultdict[str, list[float]] = defaultdict(list)
        for run in self._usable:
            found[run.full_name].append(run.seconds / run.images)
        return {name: median(values) for name, values in found.items()}

    @cached_property
    def rate(self) -> float | None:
        """Billions of multiply-accumulates a second: the median of all runs."""
        rates = [run.gflops * run.images / run.seconds for run in self._usable if run.gflops]
        return median(rates) if rates else None

    @cached_property
    def memory_by_network(self) -> Mapping[str, int]:
        """The most bytes a worker held, by source and architecture."""
        found: dict[str, int] = {}
        for run in self.runs:
            if run.peak_memory:
                found[run.full_name] = max(found.get(run.full_name, 0), run.peak_memory)
        return found

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


def estimate(full_name: str, gflops: float, images: int, history: History) -> Estimate:
    """Estimate a job's seconds.

    Parameters
    ----------
    full_name : str
        Source and architecture.
    gflops : float
        Billions of multiply-accumulates for one image.
    images : int
        Images to measure.
    history : History
        Earlier runs on such a device.
    """
    same = history.by_network.get(full_name)
    if same is not None:
        return Estimate(same * images, FROM_HISTORY)
    if history.rate is not None:
        return Estimate(gflops * images / history.rate, FROM_RATE)
    return Estimate(gflops * images / DEFAULT_RATE, FROM_DEFAULT)


def history_of(home: Home, device: str) -> History:
    """Return what the runs of a home took on the CPU, or on GPUs."""
    runs = [Measured(**row) for row in run_costs(home).to_pylist()]
    return History([run for run in runs if run.device == device])


def seconds_of(
    jobs: Iterable[Job], states: Mapping[str, RunState], history: History
) -> dict[str, float]:
    """Return the seconds that jobs may still take, by run id."""
    return {
        job.run_id: estimate(job.full_name, gflops_of(job), remaining(job, states), history).seconds
        for job in jobs
    }


def gflops_of(job: Job) -> float:
    """Return the work of a job's network on one image, without building it.

    Counted at the network's own image size; the work grows as the image's area.
    """
    cost = counted(job.source, job.architecture)
    if cost is None:
        return DEFAULT_GFLOPS
    return cost.gflops * (job.transform.size / cost.size) ** 2


def remaining(job: Job, states: Mapping[str, RunState]) -> int:
    """Return how many images of a job are not durable yet."""
    state = states.get(job.run_id)
    return max(0, job.images - (state.images + state.skipped_images if state else 0))
