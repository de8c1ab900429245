"""A job, with the key made from everything its numbers depend on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from catalog.checkpoint_references import Checkpoint
from catalog.models.base import InputTransform, Reported
from catalog.models.cost_table import CountedCost
from catalog.registry.rows import JobEntry
from catalog.tags import RunLabels
from jobs.planning.accuracy_check import Expectation
from survey import MEASURING_VERSION, MeasureSettings
from survey.settings import PROCESSOR_PASS, unrecorded

#: Hexadecimal digits of a job's key in a run's id.
RUN_ID_LENGTH = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Facts about a network and its weights that determine no number."""

    #: The paper's group of families, such as ``residual``.
    family_group: str | None = None
    #: Year in which the architecture was published.
    year: int | None = None
    #: Convolutions and matrix products with weights on the longest path; None if not counted.
    depth: int | None = None
    #: Accuracy its weights were published with, on any dataset, and how it was measured.
    reported: Reported | None = None


# Without slots, which would leave the key no place to be kept.
@dataclass(frozen=True)
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
    #: Its weights.
    checkpoint: Checkpoint
    #: sha256 of the weights' bytes, or of the initialisation's name.
    checkpoint_sha256: str
    #: The dataset's full name.
    dataset: str
    #: Folder that relative paths in ``dataset`` start from.
    base: Path
    #: sha256 over the dataset's content and order.
    dataset_fingerprint: str
    #: Sizes and times of the dataset's files when it was hashed.
    dataset_stat: str
    #: Images in the dataset, broken ones included.
    images: int
    #: The preparation of its images.
    transform: InputTransform
    #: The settings of the measuring.
    settings: MeasureSettings
    #: The home, whose files and caches workers share; None without one.
    home: Path | None = None
    #: Facts about the network.
    facts: ModelFacts = ModelFacts()
    #: What the network costs, where no table lists it and its time has to be foreseen.
    cost: CountedCost | None = None
    #: The accuracy expected of its weights on this dataset; None where unknown.
    expectation: Expectation | None = None
    #: sha256 of the user's code that defines the network; None where an installed package does.
    code_sha256: str | None = None
    #: Name and version of each library whose version is part of the key.
    libraries: tuple[tuple[str, str], ...] = ()
    #: Measures of the whole network beside its signature; no part of the key.
    measures: tuple[str, ...] = field(default=(), compare=False)
    #: What the user calls it and notes of it; no part of the key.
    labels: RunLabels = field(default=RunLabels(), compare=False)

    @property
    def full_name(self) -> str:
        """Source and architecture, such as ``torchvision:resnet50``."""
        return f"{self.source}:{self.architecture}"

    @property
    def title(self) -> str:
        """Model, checkpoint and dataset in one line."""
        return f"{self.full_name} / {self.checkpoint.reference} / {self.dataset}"

    @cached_property
    def key(self) -> str:
        """sha256 (hex) over everything that determines the numbers."""
        determinants: dict[str, object] = {
            "architecture": self.full_name,
            "checkpoint": self.checkpoint_sha256,
            "dataset": self.dataset_fingerprint,
            "transform": _chosen(self.transform),
            "settings": _determining(self.settings),
            "measuring_version": MEASURING_VERSION,
        }
        # Only where there are some: keys of jobs without them must not change.
        if self.libraries:
            determinants["libraries"] = dict(self.libraries)
        if self.code_sha256:
            determinants["code"] = self.code_sha256
        text = json.dumps(determinants, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def run_id(self) -> str:
        """The id of its run: the first digits of the key."""
        return self.key[:RUN_ID_LENGTH]

    def to_entry(self) -> JobEntry:
        """Return the job's row in the registry."""
        return JobEntry(
            key=self.key,
            run_id=self.run_id,
            architecture=self.architecture,
            source=self.source,
            checkpoint=self.checkpoint.reference,
            dataset=self.dataset,
            settings=self.recorded_settings(),
        )

    def recorded_settings(self) -> dict[str, Any]:
        """Return the settings as stored, with the library versions in the key."""
        chosen = {"libraries": dict(self.libraries)} if self.libraries else {}
        return {**self.settings.to_dict(), **chosen}


def _determining(settings: MeasureSettings) -> dict[str, Any]:
    """Return the settings that numbers depend on: without a precision, not how it is reached."""
    chosen = _chosen(settings)
    chosen.pop("least_batches", None)
    if settings.micro_batch == PROCESSOR_PASS:
        # The default once, and what it stands for on a processor: keys left it out.
        del chosen["micro_batch"]
    if settings.precision is not None:
        # Always named: its default was another one once.
        chosen["least_batches"] = settings.least_batches
    return chosen


def _chosen(values: InputTransform | MeasureSettings) -> dict[str, Any]:
    """Return the fields that differ from what a key without them means.

    A setting that is added later, with a default that changes no number, keeps every old key; so
    does a changed default, because ``unrecorded`` is then still the old one.
    """
    return {
        each.name: getattr(values, each.name)
        for each in dataclasses.fields(values)
        if getattr(values, each.name) != unrecorded(each)
    }
