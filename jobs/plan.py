"""From a declared survey to its jobs, and which of them are still to be done.

Reads the catalog and what it is told is measured; measures nothing and starts nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from catalog.checkpoints import Checkpoint, input_transform, resolve
from catalog.datasets import open_dataset
from catalog.datasets.base import ImageDataset
from catalog.models import find
from catalog.models.base import Architecture, InputTransform
from catalog.runs import RunState
from jobs.definition import Definition, ModelChoice
from jobs.job import Job
from survey import CatalogError, SettingsError

#: Checkpoint every architecture may lack, and a glob may leave out.
BUNDLED = "bundled"


@dataclass(frozen=True, slots=True)
class Plan:
    """The jobs of a survey, in the order they will run."""

    #: All jobs, one a key.
    jobs: tuple[Job, ...]
    #: Run ids of those that are already measured.
    done: frozenset[str]

    @property
    def todo(self) -> tuple[Job, ...]:
        """The jobs that are still to be done."""
        return tuple(job for job in self.jobs if job.run_id not in self.done)


@dataclass(frozen=True, slots=True)
class Hashes:
    """How content is hashed; a home remembers what it has hashed before.

    Parameters
    ----------
    checkpoint : callable
        sha256 of a checkpoint's bytes.
    dataset : callable
        sha256 over a dataset's content and order.
    """

    checkpoint: Callable[[Checkpoint], str]
    dataset: Callable[[ImageDataset], str]


def plain_hashes() -> Hashes:
    """Return hashing that remembers nothing."""
    return Hashes(lambda checkpoint: checkpoint.sha256(), lambda dataset: dataset.fingerprint())


def make_plan(definition: Definition, states: Mapping[str, RunState], hashes: Hashes) -> Plan:
    """Resolve a survey's names into jobs.

    Parameters
    ----------
    definition : Definition
        The survey.
    states : mapping of str to RunState
        What is measured already, by run id.
    hashes : Hashes
        How checkpoints and datasets are hashed.

    Returns
    -------
    Plan
        Jobs grouped by dataset, in the order declared, each key once.

    Raises
    ------
    UnknownName, CatalogError
        If a model, checkpoint or dataset is unknown or unusable.
    SettingsError
        If a dataset holds fewer images than one score needs.
    """
    models = [pair for choice in definition.models for pair in _checkpoints(choice, definition)]
    jobs: dict[str, Job] = {}
    hashed = {checkpoint: hashes.checkpoint(checkpoint) for _, checkpoint, _ in models}
    for choice in definition.datasets:
        dataset = open_dataset(choice.name, definition.base)
        _require_enough(dataset, definition)
        stat, fingerprint = dataset.stat_signature(), hashes.dataset(dataset)
        for architecture, checkpoint, transform in models:
            job = Job(
                source=architecture.source,
                architecture=architecture.name,
                family=architecture.family,
                checkpoint=checkpoint,
                checkpoint_sha256=hashed[checkpoint],
                dataset=choice.name,
                base=definition.base.absolute(),
                dataset_fingerprint=fingerprint,
                dataset_stat=stat,
                images=len(dataset),
                transform=transform,
                settings=definition.settings,
            )
            jobs.setdefault(job.key, job)
    done = frozenset(
        job.run_id
        for job in jobs.values()
        if (state := states.get(job.run_id)) is not None and state.status == "done"
    )
    return Plan(tuple(jobs.values()), done)


def check(definition: Definition) -> None:
    """Resolve a survey's names without hashing anything, so that a typo is met at once.

    Raises
    ------
    UnknownName, CatalogError, SettingsError
        As ``make_plan``.
    """
    for choice in definition.models:
        list(_checkpoints(choice, definition))
    for dataset in definition.datasets:
        _require_enough(open_dataset(dataset.name, definition.base), definition)


def _checkpoints(
    choice: ModelChoice, definition: Definition
) -> Iterator[tuple[Architecture, Checkpoint, InputTransform]]:
    """Yield each architecture of a choice with each of its checkpoints."""
    architectures = find(choice.name)
    globbed = any(mark in choice.name for mark in "*?[")
    found = False
    for architecture in architectures:
        for reference in choice.checkpoints or (None,):
            if globbed and not architecture.bundled and reference in (None, BUNDLED):
                continue
            found = True
            checkpoint = resolve(reference, architecture, definition.base)
            yield architecture, checkpoint, _transform(architecture, checkpoint, choice)
    if not found:
        raise CatalogError(
            f"none of the {len(architectures)} models of {choice.name!r} has a bundled checkpoint",
            hint="name one: init:SEED or file:PATH",
        )


def _transform(
    architecture: Architecture, checkpoint: Checkpoint, choice: ModelChoice
) -> InputTransform:
    transform = input_transform(architecture, checkpoint)
    return dataclasses.replace(
        transform, mean=choice.mean or transform.mean, std=choice.std or transform.std
    )


def _require_enough(dataset: ImageDataset, definition: Definition) -> None:
    wanted = definition.settings.images_per_score
    if len(dataset) < wanted:
        raise SettingsError(
            f"{dataset.name} has {len(dataset)} images, fewer than images_per_score ({wanted})",
            hint=f"set images_per_score to {len(dataset)} or less (--batch-size)"
            if len(dataset) > 1
            else "a score compares at least two images",
        )
