"""Linearisations with training: a sweep, and its jobs with keys of their own."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from catalog.datasets.label_map import label_map
from catalog.model_fit import fit_for
from catalog.models import find
from jobs.choices import PLAIN_EPOCHS
from jobs.planning.definition import parse_definition
from jobs.planning.holdings import Holdings
from jobs.planning.job import RUN_ID_LENGTH, Job
from jobs.planning.plan import Plan, make_plan
from survey.errors import CatalogError, CheckpointError, DatasetError, SettingsError
from survey.linearising.settings import LinearisationSettings
from survey.text import counted

#: Whether the penalty comes when the network is trained, or from the start.
Beginning = Literal["late", "early"]

#: Raised whenever a change moves any number; part of every job's key.
LINEARISING_VERSION = 2


@dataclass(frozen=True, slots=True)
class LinearisationJob:
    """One network, trained once under one penalty. It travels to other processes and machines."""

    #: The network with the weights it begins with, on the images it is trained on.
    trained: Job
    #: The same network, on the images that it is judged by.
    judged: Job
    beginning: Beginning
    settings: LinearisationSettings

    @property
    def key(self) -> str:
        """sha256 (hex) over everything that determines the numbers, but for the machine."""
        determinants: dict[str, object] = {
            "architecture": self.trained.full_name,
            "checkpoint": self.trained.checkpoint_sha256,
            "datasets": [job.dataset_fingerprint for job in (self.trained, self.judged)],
            "transform": dataclasses.asdict(self.trained.transform),
            "settings": dataclasses.asdict(self.settings),
            "linearising_version": LINEARISING_VERSION,
        }
        if self.trained.code_sha256:
            determinants["code"] = self.trained.code_sha256
        text = json.dumps(determinants, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def run_id(self) -> str:
        """The first digits of the key."""
        return self.key[:RUN_ID_LENGTH]

    @property
    def title(self) -> str:
        """Model, beginning, penalty and seed in one line."""
        job, settings = self.trained, self.settings
        return f"{job.full_name} / {self.beginning} / omega {settings.omega:g} / {settings.seed}"

    def described(self) -> dict[str, object]:
        """Return what is known of it before it is trained, as plain values by name."""
        return {
            "run_id": self.run_id,
            "key": self.key,
            "model": self.trained.full_name,
            "checkpoint": self.trained.checkpoint.reference,
            "checkpoint_sha256": self.trained.checkpoint_sha256,
            "train": self.trained.dataset,
            "heldout": self.judged.dataset,
            "beginning": self.beginning,
            "settings": dataclasses.asdict(self.settings),
            "linearising_version": LINEARISING_VERSION,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearisationSweep:
    """Networks, penalties and seeds, each with each.

    From initial weights, which the seed draws too, the late network is first trained without the
    penalty. The early one has it first, in as many passes, and then as many passes without it, in
    which its slopes stay: only when the penalty comes differs.
    """

    models: Sequence[str]
    omegas: Sequence[float]
    seeds: Sequence[int]
    beginnings: Sequence[Beginning]
    train: str
    heldout: str
    #: Weights of a trained network, with which late linearisations begin; by default they are
    #: trained from initial weights.
    checkpoint: str | None = None
    #: What is alike in all; its omega and seed are not used.
    settings: LinearisationSettings = field(
        default_factory=lambda: LinearisationSettings(plain_epochs=PLAIN_EPOCHS)
    )

    def jobs(self, holdings: Holdings) -> tuple[LinearisationJob, ...]:
        """Return the jobs, one a key, in the order declared.

        Raises
        ------
        UnknownName, CatalogError
            If a model, weights or dataset is unknown, unusable or not at hand; if the weights do
            not fit a model, or the classes of a dataset are not its outputs.
        SettingsError
            If a value is not allowed.
        """
        if self.checkpoint is not None and "early" in self.beginnings:
            raise SettingsError(
                "early linearisations begin with initial weights, and a checkpoint is named",
                hint="leave --checkpoint out, or ask for --beginning late alone",
            )
        if _share_images(self.train, self.heldout):
            raise self._shared()
        jobs: dict[str, LinearisationJob] = {}
        for model, seed in itertools.product(self.models, self.seeds):
            pairs = self._pairs(model, seed, holdings)
            for pair, omega, beginning in itertools.product(pairs, self.omegas, self.beginnings):
                job = LinearisationJob(*pair, beginning, self._settings(omega, seed, beginning))
                jobs.setdefault(job.key, job)
        return tuple(jobs.values())

    def _pairs(self, model: str, seed: int, holdings: Holdings) -> list[tuple[Job, Job]]:
        """Return each network that a name stands for, on both datasets."""
        checkpoint = f"init:{seed}" if self.checkpoint is None else self.checkpoint
        values = {
            "models": [{"name": model, "checkpoints": [checkpoint]}],
            "datasets": [{"name": name} for name in (self.train, self.heldout)],
        }
        # No scores are measured, so that any number of images will do.
        few = {"images_per_score": 2}
        plan = make_plan(parse_definition(values, "linearisation", Path(), few), {}, holdings)
        if plan.lacking:
            lacking = plan.lacking[0]
            raise CatalogError(
                f"files of {lacking.architecture} / {lacking.checkpoint} / {lacking.dataset} are"
                " not here",
                hint="get them with survey fetch",
            )
        for job in plan.jobs:
            _require_weights(job, plan)
            _require_labels(job, holdings)
        names = self.train, self.heldout
        trained, judged = ([job for job in plan.jobs if job.dataset == name] for name in names)
        if len(trained) != len(judged):
            # Jobs on the same images, however they are named, have one key.
            raise self._shared()
        return list(zip(trained, judged, strict=True))

    def _shared(self) -> SettingsError:
        return SettingsError(
            f"networks would be judged by images they are trained on: {self.train} and"
            f" {self.heldout} share some",
            hint="name other images with --train or --heldout",
        )

    def _settings(self, omega: float, seed: int, beginning: Beginning) -> LinearisationSettings:
        return dataclasses.replace(
            self.settings,
            # Of 0 and -0 one key.
            omega=omega + 0.0,
            seed=seed,
            plain_epochs=0 if self.checkpoint is not None else self.settings.plain_epochs,
            penalty_first=beginning == "early",
        )


def _require_weights(job: Job, plan: Plan) -> None:
    if why := plan.unfit.get(job.run_id):
        raise CheckpointError(f"{job.checkpoint.reference} does not fit {job.full_name}: {why}")


def _require_labels(job: Job, holdings: Holdings) -> None:
    """Refuse a dataset whose images have no class among the network's outputs."""
    dataset = holdings.open(job.dataset, job.base)
    if dataset is None:
        raise DatasetError(f"files of {job.dataset} are not here")
    (architecture,) = find(job.full_name)
    outputs = fit_for(architecture, job.checkpoint).classes
    if label_map(dataset.class_names, outputs) is None:
        classes = counted(len(dataset.class_names), "class", "classes")
        raise DatasetError(
            f"{job.dataset} has {classes}, and {job.full_name} has {outputs} outputs: no image has"
            " a label to train or judge with",
            hint="name a dataset with labels, whose classes are the network's outputs",
        )


def _share_images(one: str, other: str) -> bool:
    """Return whether two names are of one dataset, or of a dataset and its part."""
    # Looked up here: it loads what packages bring.
    from catalog.datasets import DATASETS

    part, whole = sorted((name.partition("[")[0] for name in (one, other)), key=len, reverse=True)
    if not f"{part}:".startswith(f"{whole}:"):
        return False
    # A name alone may stand for another part, as ``cifar10`` does for its test images.
    images = {info.syntax: info.images or 0 for info in DATASETS}
    return images.get(whole, 0) >= images.get(part, 0)
