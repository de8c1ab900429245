"""Estimates of a job's time: from runs of the same architecture, else from its arithmetic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median

import numpy as np

from catalog.home import Home
from catalog.models.cost_table import counted
from catalog.store.queries import run_costs
from catalog.store.records import RunState
from jobs.planning.job import Job
from jobs.planning.measures import missing_measures
from survey.network_measures import MEASURES
from survey.network_measures.base import NetworkMeasure, SampledMeasure

#: Seconds for a billion multiply-accumulates, and for the metrics of one site on one batch, on one
#: core of a CPU where nothing was measured yet.
DEFAULT_SECONDS = (0.1, 0.1)

#: Seconds of an H200 for a billion multiply-accumulates of a bare pass; see docs/accelerators.md.
BARE_SECONDS = 6.5e-5

#: Seconds of one core for one site of ResNet-50 on one batch: for all metrics, and for the affinity
#: alone; see docs/accelerators.md.
CORE_SECONDS, AFFINITY_SECONDS = 0.13, 0.10

#: As ``DEFAULT_SECONDS``, on an H200 with sixteen cores and for all metrics: a captured pass takes
#: half as long again.
GPU_SECONDS = (1.5 * BARE_SECONDS, CORE_SECONDS / 16)

#: How much these count beside what was measured: as a run of which passes, or scores, take a third.
DEFAULT_WEIGHT = 1 / 3

#: Work of a network that is not in the cost table, in billions of multiply-accumulates on an image,
#: and the side of that image in pixels.
DEFAULT_GFLOPS, DEFAULT_SIZE = 4.0, 224

#: Seconds of a measure of the whole network on one core of a CPU, beside the passes of images: the
#: loading of the network, and the following of its calls.
MEASURE_SECONDS = 2.0

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
    device : {"cpu", "cuda"}
        Their device.
    """

    runs: Sequence[Measured] = ()
    device: str = "cpu"

    @cached_property
    def by_network(self) -> Mapping[str, float]:
        """Seconds an image, by source and architecture: the median of its runs."""
        seconds: defaultdict[str, list[float]] = defaultdict(list)
        for run in self._usable:
            seconds[run.full_name].append(run.seconds / run.images)
        return {name: median(values) for name, values in seconds.items()}

    @property
    def default_seconds(self) -> tuple[float, float]:
        """Seconds for a billion multiply-accumulates, and for one score, of an ordinary machine."""
        return GPU_SECONDS if self.device == "cuda" else DEFAULT_SECONDS

    @cached_property
    def unit_seconds(self) -> tuple[float, float] | None:
        """Seconds for a billion multiply-accumulates, and for one score, over all runs.

        Non-negative least squares, relative to each run's time: small networks take longer to
        score than to run, large ones do not. Small ones alone hardly say how long a pass takes:
        what runs leave open is as on an ordinary machine.
        """
        runs = [run for run in self._usable if run.gflops or run.scores]
        if not runs:
            return None
        # Heavy, and needed once something was measured.
        from scipy.optimize import nnls

        defaults = np.array(self.default_seconds)
        work = np.array([(run.gflops * run.images, run.scores) for run in runs])
        shares = work * defaults / np.array([[run.seconds] for run in runs])
        weights = np.concatenate([np.ones(len(runs)), np.full(2, DEFAULT_WEIGHT)])
        over_defaults, _ = nnls(np.vstack([shares, DEFAULT_WEIGHT * np.eye(2)]), weights)
        a_gflop, a_score = defaults * over_defaults
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
    #: The images that are not measured yet.
    images: int
    #: The part of the seconds that each missing measure of the whole network takes, by its name.
    measures: Mapping[str, float] = field(default_factory=dict)

    @property
    def measure_seconds(self) -> float:
        """The part of the seconds that all measures take."""
        return sum(self.measures.values())

    @property
    def score_seconds(self) -> float:
        """The part of the seconds that the scores take."""
        return self.seconds - self.measure_seconds


def estimate(job: Job, states: Mapping[str, RunState], history: History) -> Estimate:
    """Estimate the seconds that a job may still take.

    Parameters
    ----------
    job : Job
        The job.
    states : mapping of str to RunState
        The progress of each run.
    history : History
        Earlier runs on the same kind of device.
    """
    images = images_left(job, states)
    same, known = history.by_network.get(job.full_name), history.unit_seconds
    a_gflop, a_score = known or history.default_seconds
    a_pass = a_gflop * _gflops(job)
    seconds = a_pass * images + a_score * scores_left(job, states)
    factor = FROM_RATE if known else FROM_DEFAULT
    if same is not None:
        # Its runs took scores beside the passes.
        a_pass, seconds, factor = min(a_pass, same), same * images, FROM_HISTORY
    measures = _measure_seconds(job, states, a_pass)
    whole = sum(measures.values())
    # How long a measure took before is not known.
    factor = FROM_RATE if same is not None and whole > seconds else factor
    return Estimate(seconds + whole, factor, images, measures)


def history_of(home: Home, device: str) -> History:
    """Return the runs of a home on the CPU, or on GPUs."""
    runs = [Measured(**row) for row in run_costs(home).to_pylist()]
    return History([run for run in runs if run.device == device], device)


def cores_of_gpu(jobs: Iterable[Job], states: Mapping[str, RunState]) -> float:
    """Return the cores whose scores keep pace with an H200; 0 without jobs.

    The affinity alone was timed beside all metrics: any other choice counts as all.
    """
    scores = passes = 0.0
    for job in jobs:
        alone = job.settings.metrics == ("affinity",)
        scores += (AFFINITY_SECONDS if alone else CORE_SECONDS) * scores_left(job, states)
        passes += BARE_SECONDS * _gflops(job) * images_left(job, states)
    return max(1.0, scores / passes) if passes else 0.0


def images_left(job: Job, states: Mapping[str, RunState]) -> int:
    """Return how many images of a job are not measured yet."""
    state = states.get(job.run_id)
    if state is not None and state.status == "done":
        # It may have reached its precision before the last image.
        return 0
    return max(0, job.images - (state.images + state.skipped_images if state else 0))


def scores_left(job: Job, states: Mapping[str, RunState]) -> int:
    """Return about how many scores of a job are missing: sites times batches."""
    # A network has about one activation for each layer with weights.
    return _sites(job) * images_left(job, states) // job.settings.score_images


def _measure_seconds(
    job: Job, states: Mapping[str, RunState], a_pass: float
) -> Mapping[str, float]:
    """Return the seconds of each missing measure, given those of one image's forward pass."""
    missing = missing_measures(job.measures, states.get(job.run_id, RunState()).measures)
    return {
        measure.name: MEASURE_SECONDS + a_pass * _passes(measure, job)
        for measure in MEASURES
        if measure.name in missing
    }


def _passes(measure: NetworkMeasure, job: Job) -> float:
    """Return how many images' forward passes a measure takes as long as."""
    if not isinstance(measure, SampledMeasure):
        return 0.0
    return measure.passes(_sites(job)) * min(measure.images, job.images)


def _sites(job: Job) -> int:
    return job.facts.depth or (job.cost.depth if job.cost else 0) or DEFAULT_SITES


def _gflops(job: Job) -> float:
    """Return the work of a job's network on one image, as it was counted.

    Counted at the network's default image size; the work grows as the image's area.
    """
    cost = job.cost or counted(job.source, job.architecture)
    gflops, size = (cost.gflops, cost.size) if cost else (DEFAULT_GFLOPS, DEFAULT_SIZE)
    return gflops * (job.transform.size / size) ** 2
