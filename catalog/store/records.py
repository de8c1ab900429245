"""The frozen values that the signature store takes and gives: a run, a batch, a run's progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from catalog.bounds import parse_json
from survey.column_fields import column, nested, optional
from survey.network_measures.base import NetworkScore
from survey.results import BatchScores


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One row of ``runs``: what was measured, how, with what, and what became of it."""

    run_id: str = column("The run: one architecture, checkpoint, dataset, settings.")
    job_key: str | None = optional("Hash of everything that determines the run's numbers.")
    attempt: int = column("Which attempt at the run wrote this row, counting from 1.")
    architecture: str = column("The network's name within its source.")
    source: str = column("Where the architecture comes from, such as torchvision.")
    family: str | None = optional("The architecture's family, such as ResNet.")
    family_group: str | None = optional("The paper's group of families, such as residual.")
    year: int | None = optional("Year in which the architecture was published.")
    checkpoint: str = column("The weights as named: init:0, bundled, file:NAME.")
    checkpoint_sha256: str | None = optional("The sha256 of the file of weights, if there is one.")
    dataset: str = column("The images' name, such as digits or folder:NAME.")
    dataset_fingerprint: str | None = optional("The sha256 over images, names, labels and order.")
    status: str = column("What became of the run: running, done, failed or cancelled.")
    stage: str | None = optional("The stage a failed run failed in.")
    error: str | None = optional("What went wrong, in a sentence.")
    traceback: str | None = optional("Where in the program a failed run failed.")
    measured_top1: float | None = optional(
        "Fraction right; NULL unless all images have labels that fit."
    )
    measured_top5: float | None = optional(
        "Fraction right within five guesses; NULL where the other is."
    )
    reported_top1: float | None = optional("Fraction right that the weights were published with.")
    reported_protocol: str | None = optional("What classified then, such as linear.")
    reported_dataset: str | None = optional("The dataset it was reported for.")
    expected_top1: float | None = optional("What measured_top1 is held against; NULL if nothing.")
    expected_source: str | None = optional("Who says so: declared, or who reported it.")
    suspicion: str | None = optional("Why the run's accuracy is suspect; NULL where it is not.")
    images: int | None = optional(
        "Images measured, those of a last partial batch included.", "BIGINT"
    )
    skipped_images: int | None = optional(
        "Images of the dataset that could not be decoded.", "BIGINT"
    )
    skipped_names: tuple[str, ...] = column(
        "The names of the images that could not be decoded.", default=()
    )
    batches: int | None = optional("Batches measured, a last partial one included.")
    sites: int | None = optional("Activation sites of the network.")
    depth: int | None = optional("Layers with weights on the longest path through the network.")
    parameters: int | None = optional("Parameters of the network.", "BIGINT")
    gflops: float | None = optional("Billions of multiply-adds of one image's forward pass.")
    settings: str | None = optional("The measuring settings, as JSON.")
    images_per_score: int | None = optional("Images in one batch score.")
    micro_batch: int | None = optional("Images in one forward pass.")
    shrinkage: str | None = optional("Covariance estimator: ledoit-wolf or none.")
    ridge: str | None = optional("Whether the ridge is absolute or relative to the variance.")
    pooling: str | None = optional("From tensor to matrix: mean, pre, sum, flatten or public_code.")
    precision: float | None = optional("Standard error to stop at; NULL where all is read.")
    least_batches: int | None = optional("Batches before a precision counts as reached.")
    transform: str | None = optional("How images became the network's input, as JSON.")
    order_seed: int | None = optional("Seed of the order of the images.")
    reached_precision: float | None = optional("Largest standard error of a site's mean affinity.")
    parts: int | None = optional("Parts the run was split into, each measured by one worker.")
    device: str | None = optional("The device that measured, such as cpu or cuda:0.")
    device_name: str | None = optional("The device's model name.")
    dtype: str | None = optional("Number format of weights and activations.")
    threads: int | None = optional("Threads of one forward pass on a CPU.")
    hostname: str | None = optional("The machine that measured.")
    python_version: str | None = optional("Python's version.")
    torch_version: str | None = optional("torch's version.")
    torchvision_version: str | None = optional("torchvision's version.")
    numpy_version: str | None = optional("numpy's version.")
    scipy_version: str | None = optional("scipy's version.")
    survey_version: str | None = optional("This program's version.")
    measuring_version: int | None = optional("Version of the measuring; a change moves numbers.")
    dropped_keys: tuple[str, ...] = column(
        "Entries of the checkpoint that were not loaded.", default=()
    )
    started_at: datetime | None = optional("When the attempt began.")
    finished_at: datetime | None = optional(
        "When it ended, or was last planned in place of a later run."
    )
    seconds: float | None = optional("Seconds of measuring, over all attempts that were kept.")
    peak_memory: int | None = optional("Most bytes of memory that a worker held.", "BIGINT")


@dataclass(frozen=True, slots=True)
class PackedScores:
    """The scores of one batch as a segment holds them, made by the worker that measured it."""

    #: Site and affinity of each.
    affinities: tuple[tuple[int, float | None], ...]
    #: An Arrow stream of the batch's row, whose scores are nested in it.
    row: bytes


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One batch on its way into the store."""

    run_id: str = column("The run: one architecture, checkpoint, dataset, settings.")
    attempt: int = column("Which attempt at the run measured it, counting from 1.")
    #: Its scores and accuracy counts.
    batch: BatchScores = nested()
    end_position: int = column(
        "Place in the dataset's order where the next batch begins.", "BIGINT"
    )
    skipped_names: tuple[str, ...] = column("The names of the images passed over.", default=())
    micro_batch: int | None = optional("Images in one forward pass of this batch.")
    threads: int | None = optional("Threads of one forward pass of this batch on a CPU.")
    device_name: str | None = optional("The model name of the device that measured the batch.")
    hostname: str | None = optional("The machine that measured the batch.")
    #: Its scores where ``batch`` has none of them, on the way from another process.
    packed: PackedScores | None = nested(default=None)

    @property
    def affinities(self) -> Sequence[tuple[int, float | None]]:
        """Site and affinity of each score."""
        if self.packed:
            return self.packed.affinities
        return [(score.site, score.affinity) for score in self.batch.scores]


@dataclass(frozen=True, slots=True)
class NetworkRecord:
    """Measures of a run's whole network on their way into the store."""

    run_id: str
    #: Which attempt at the run computed them, counting from 1.
    attempt: int
    #: Each by the measure's name.
    scores: Mapping[str, NetworkScore]


def details_of(stored: object) -> dict[str, Any]:
    """Return ``NetworkScore.details`` from the store's text; nothing where it is no JSON object."""
    try:
        details = parse_json(stored) if isinstance(stored, str) else {}
    except ValueError:
        return {}
    return details if isinstance(details, dict) else {}


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
    status: str = "running"
    #: Activation sites of the network; None until a batch is scored.
    sites: int | None = None
    #: The highest attempt that wrote anything.
    attempt: int = 0
    #: Durable batches.
    batches_done: int = 0
    #: Where they lie among all, in order; between two spans batches are missing.
    done: tuple[Span, ...] = ()
    #: Images in those batches.
    images: int = 0
    #: Images of those batches whose label fits the network's outputs.
    labelled: int = 0
    #: Labelled images whose label is the largest output.
    top1_hits: int = 0
    #: Labelled images whose label is among the five largest outputs.
    top5_hits: int = 0
    #: Images passed over.
    skipped_images: int = 0
    #: The names of the images passed over.
    skipped_names: tuple[str, ...] = ()
    #: Seconds measuring those batches took.
    seconds: float = 0.0
    #: What a finished run measured, what it was held against, and why it is suspect.
    measured_top1: float | None = None
    expected_top1: float | None = None
    suspicion: str | None = None
    #: The measures of the whole network that are stored, with a value or a reason, and the version
    #: of each.
    measures: Mapping[str, int | None] = field(default_factory=dict)
