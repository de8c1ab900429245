"""A job: a run that is to be done, and the key that says what its numbers depend on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catalog.checkpoints import Checkpoint
from catalog.models.base import InputTransform, Reported
from catalog.registry import JobEntry
from jobs.verdict import Expectation
from survey import MEASURING_VERSION, MeasureSettings

#: Hexadecimal digits of a job's key that make a run's id.
RUN_ID_LENGTH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What is known of a network and its weights; it determines no number."""

    #: The paper's group of families, such as ``residual``.
    family_group: str | None = None
    #: Year in which the architecture was published.
    year: int | None = None
    #: Convolutions and matrix products with weights on the longest path; None if not counted.
    depth: int | None = None
    #: Accuracy its weights were published with, on any dataset, and how it was measured.
    reported: Reported | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One architecture x checkpoint x dataset under one set of settings.

    Everything a worker needs, as plain values: it travels to other processes and machines.
    """

    #: Source of the architecture, such as ``torchvision``.
    source: str
    #: The architecture's name within its source.
    architecture: str
    #: The family it belongs to.
    family: str
    #: Where its weights come from.
    checkpoint: Checkpoint
    #: sha256 of the weights' bytes, or of the initialisation's name.
    checkpoint_sha256: str
    #: The dataset as the user names it.
    dataset: str
    #: Folder that relative paths in ``dataset`` start from.
    base: Path
    #: sha256 over the dataset's content and order.
    dataset_fingerprint: str
    #: What the dataset's files looked like when it was hashed.
    dataset_stat: str
    #: Images in the dataset, broken ones included.
    images: int
    #: How images are prepared.
    transform: InputTransform
    #: How they are measured.
    settings: MeasureSettings
    #: The home, whose files and caches workers share; None without one.
    home: Path | None = None
    #: What is known of the network beside its numbers.
    facts: ModelFacts = ModelFacts()
    #: The accuracy its weights should show on this dataset; None where nobody says.
    expectation: Expectation | None = None

    @property
    def full_name(self) -> str:
        """Source and architecture, such as ``torchvision:resnet50``."""
        return f"{self.source}:{self.architecture}"

    @property
    def title(self) -> str:
        """One line that tells this job from others."""
        return f"{self.full_name} / {self.checkpoint.reference} / {self.dataset}"

    @property
    def key(self) -> str:
        """sha256 (hex) over everything that determines the numbers."""
        determinants = {
            "architecture": self.full_name,
            "checkpoint": self.checkpoint_sha256,
            "dataset": self.dataset_fingerprint,
            "transform": _chosen(self.transform),
            "settings": _chosen(self.settings),
            "measuring_version": MEASURING_VERSION,
        }
        text = json.dumps(determinants, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def run_id(self) -> str:
        """The run's name in the stores: the first digits of the key."""
        return self.key[:RUN_ID_LENGTH]

    def to_entry(self) -> JobEntry:
        """Return the job as the registry keeps it."""
        return JobEntry(
            key=self.key,
            run_id=self.run_id,
            architecture=self.architecture,
            source=self.source,
            checkpoint=self.checkpoint.reference,
            dataset=self.dataset,
            settings=self.settings.to_dict(),
        )


def _chosen(values: InputTransform | MeasureSettings) -> dict[str, Any]:
    """Return the fields that differ from their default, or have none.

    A setting that is added later, with a default that changes no number, keeps every old key.
    """
    return {
        field.name: getattr(values, field.name)
        for field in dataclasses.fields(values)
        if getattr(values, field.name) != field.default
    }


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job's durable batches reach; a new attempt goes on from there."""

    #: Batches that are durable, counted from 0 without a gap.
    batches: int = 0
    #: Place in the dataset's order after the last of them.
    position: int = 0
    #: Images in them.
    images: int = 0
    #: Images among those whose label fits the model.
    labelled: int = 0
    #: Labelled images recognised first, and among the first five.
    top1_hits: int = 0
    top5_hits: int = 0
    #: Images that could not be decoded so far.
    skipped: tuple[str, ...] = ()
    #: Seconds measuring took so far.
    seconds: float = 0.0
