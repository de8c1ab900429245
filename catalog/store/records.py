"""The frozen values that the signature store takes and gives: a run, a batch, a run's progress."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from survey.results import BatchScores


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One row of ``runs``; the columns' meaning is told in ``catalog.store.schema``."""

    run_id: str
    attempt: int
    architecture: str
    source: str
    checkpoint: str
    dataset: str
    #: ``running``, ``done`` or ``failed``.
    status: str
    job_key: str | None = None
    family: str | None = None
    family_group: str | None = None
    year: int | None = None
    checkpoint_sha256: str | None = None
    dataset_fingerprint: str | None = None
    stage: str | None = None
    error: str | None = None
    traceback: str | None = None
    measured_top1: float | None = None
    measured_top5: float | None = None
    reported_top1: float | None = None
    reported_protocol: str | None = None
    reported_dataset: str | None = None
    expected_top1: float | None = None
    expected_source: str | None = None
    suspicion: str | None = None
    images: int | None = None
    skipped_images: int | None = None
    skipped_names: tuple[str, ...] = ()
    batches: int | None = None
    sites: int | None = None
    depth: int | None = None
    parameters: int | None = None
    gflops: float | None = None
    settings: str | None = None
    images_per_score: int | None = None
    micro_batch: int | None = None
    shrinkage: str | None = None
    ridge: str | None = None
    pooling: str | None = None
    precision: float | None = None
    least_batches: int | None = None
    transform: str | None = None
    order_seed: int | None = None
    reached_precision: float | None = None
    parts: int | None = None
    device: str | None = None
    device_name: str | None = None
    dtype: str | None = None
    threads: int | None = None
    hostname: str | None = None
    python_version: str | None = None
    torch_version: str | None = None
    torchvision_version: str | None = None
    numpy_version: str | None = None
    scipy_version: str | None = None
    survey_version: str | None = None
    measuring_version: int | None = None
    dropped_keys: tuple[str, ...] = ()
    started_at: datetime | None = None
    finished_at: datetime | None = None
    seconds: float | None = None
    peak_memory: int | None = None


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One batch on its way into the store."""

    #: The run it belongs to.
    run_id: str
    #: Which attempt at the run measured it, counting from 1.
    attempt: int
    #: Its scores and accuracy counts.
    batch: BatchScores
    #: Place in the dataset's order where the next batch begins.
    end_position: int
    #: Names of the images passed over because they cannot be decoded.
    skipped_names: tuple[str, ...] = ()
    #: Images in one forward pass.
    micro_batch: int | None = None
    #: Threads of one forward pass on a CPU.
    threads: int | None = None
    #: The model name of the device that measured it.
    device_name: str | None = None
    #: The machine that measured it.
    hostname: str | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """Durable batches of a run that follow each other without a gap."""

    #: The first of them.
    first: int
    #: One past the last of them.
    stop: int
    #: Place in the dataset's order where the next batch begins.
    position: int


@dataclass(frozen=True, slots=True)
class RunState:
    """How far a run has come: what a resumed run goes on from.

    Counts are over all durable batches, in whatever order they came.
    """

    #: ``running``, ``done`` or ``failed``.
    status: str
    #: Activation sites of the network; None until a batch is scored.
    sites: int | None
    #: The highest attempt that wrote anything.
    attempt: int
    #: Durable batches.
    batches_done: int
    #: Where they lie among all, in order; between two spans batches are missing.
    done: tuple[Span, ...]
    #: Images in those batches.
    images: int
    #: Images of those batches whose label fits the network's outputs.
    labelled: int
    #: Labelled images whose label is the largest output.
    top1_hits: int
    #: Labelled images whose label is among the five largest outputs.
    top5_hits: int
    #: Images passed over.
    skipped_images: int
    #: The names of the images passed over.
    skipped_names: tuple[str, ...]
    #: Seconds measuring those batches took.
    seconds: float
    #: What a finished run measured, what it was held against, and why it is suspect.
    measured_top1: float | None = None
    expected_top1: float | None = None
    suspicion: str | None = None
