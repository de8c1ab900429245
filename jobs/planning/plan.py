"""The plan of a survey: its jobs, and which of them are still to be measured.

Reads the catalog; measures nothing and starts nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.checkpoint_references import Checkpoint, input_transform, resolve
from catalog.datasets import ImageDataset, needed_files, open_dataset
from catalog.home import Home
from catalog.models.base import Architecture, InputTransform, RemoteFile, Reported
from catalog.models.cost_table import counted
from catalog.models.family_facts import family_of
from catalog.models.selection import is_glob, select
from catalog.store.records import RunState
from jobs.planning.accuracy_check import expectation
from jobs.planning.definition import DatasetChoice, Definition, ModelChoice
from jobs.planning.job import Job, ModelFacts
from jobs.planning.staleness import Staleness
from jobs.planning.versions import versions
from survey import CatalogError, SettingsError

if TYPE_CHECKING:
    from catalog.downloads import FileStore

#: References that not every architecture has; a glob skips architectures without them.
OPTIONAL = (None, "bundled", "default")


@dataclass(frozen=True, slots=True)
class Target:
    """One architecture with one set of weights, as a survey declares them."""

    architecture: Architecture
    checkpoint: Checkpoint
    transform: InputTransform
    choice: ModelChoice

    @property
    def file(self) -> RemoteFile | None:
        """The file it needs from elsewhere, if any."""
        return self.checkpoint.published.file if self.checkpoint.published else None


@dataclass(frozen=True, slots=True)
class Lacking:
    """A job that cannot be planned yet, because one of its files is missing."""

    #: The architecture's full name, the checkpoint and the dataset, as named.
    architecture: str
    checkpoint: str
    dataset: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The jobs of a survey, in the order they will run."""

    #: All jobs, one a key.
    jobs: tuple[Job, ...]
    #: Run ids of the jobs that are already measured.
    done: frozenset[str]
    #: Jobs whose files are still to be fetched.
    lacking: tuple[Lacking, ...] = ()
    #: Run ids of the jobs that are parked or cancelled.
    held: frozenset[str] = frozenset()
    #: Why each remaining job is measured, by run id.
    reasons: Mapping[str, Staleness] = field(default_factory=dict)

    @property
    def todo(self) -> tuple[Job, ...]:
        """The jobs that are still to be done."""
        return tuple(job for job in self.jobs if job.run_id not in self.done | self.held)


@dataclass(frozen=True, slots=True)
class Holdings:
    """The files at hand, and how content is hashed; a home remembers hashes.

    Parameters
    ----------
    checkpoint : callable
        sha256 of a checkpoint's bytes.
    dataset : callable
        sha256 over a dataset's content and order.
    store : FileStore, optional
        Files fetched from elsewhere; without one there are none.
    home : Home, optional
        The home that workers share.
    """

    checkpoint: Callable[[Checkpoint], str]
    dataset: Callable[[ImageDataset], str]
    store: FileStore | None = None
    home: Home | None = None

    def has(self, file: RemoteFile | None) -> bool:
        """Return whether a file is at hand, or none is needed."""
        return file is None or (self.store is not None and self.store.find(file) is not None)

    def located(self, checkpoint: Checkpoint) -> Checkpoint:
        """Return a checkpoint with the path of its file, if that is at hand."""
        weights = checkpoint.published
        if weights is None or weights.file is None or self.store is None:
            return checkpoint
        path = self.store.find(weights.file)
        return checkpoint.located(path) if path else checkpoint

    def opened(self, name: str, base: Path) -> ImageDataset:
        """Return a dataset whose files are at hand."""
        folder = self.home.datasets if self.home else None
        return open_dataset(name, base, self.store, folder)


def plain_holdings(home: Path | None = None) -> Holdings:
    """Return holdings that remember no hashes.

    Parameters
    ----------
    home : pathlib.Path, optional
        A home, existing or not: some datasets lie below it.
    """
    return Holdings(
        lambda checkpoint: checkpoint.sha256(),
        lambda dataset: dataset.fingerprint(),
        home=Home(home.absolute()) if home else None,
    )


def make_plan(
    definition: Definition,
    states: Mapping[str, RunState],
    holdings: Holdings,
    held: frozenset[str] = frozenset(),
) -> Plan:
    """Resolve a survey's names into jobs.

    Parameters
    ----------
    definition : Definition
        The survey.
    states : mapping of str to RunState
        The runs measured so far, by run id.
    holdings : Holdings
        The files at hand, and how they are hashed.
    held : frozenset of str
        Run ids of jobs that are parked or cancelled.

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
    here, absent = _sorted_out(targets(definition), holdings)
    hashed = {target.checkpoint: holdings.checkpoint(target.checkpoint) for target in here}
    jobs: dict[str, Job] = {}
    lacking: list[Lacking] = []
    for choice in definition.datasets:
        if not all(holdings.has(file) for file in needed_files(choice.full_name)):
            lacking += [_lacking(target, choice) for target in (*here, *absent)]
            continue
        lacking += [_lacking(target, choice) for target in absent]
        for job in _jobs(definition, choice, here, hashed, holdings):
            jobs.setdefault(job.key, job)
    done = frozenset(
        job.run_id
        for job in jobs.values()
        if (state := states.get(job.run_id)) is not None and state.status == "done"
    )
    waiting = {job.run_id for job in jobs.values()} & held - done
    return Plan(tuple(jobs.values()), done, tuple(lacking), frozenset(waiting))


def targets(definition: Definition) -> list[Target]:
    """Return every architecture of a survey with each of its checkpoints; touches no network.

    Raises
    ------
    UnknownName, CatalogError
        If a model or checkpoint is unknown or unusable.
    """
    return [target for choice in definition.models for target in _targets(choice, definition)]


def check(definition: Definition, holdings: Holdings) -> None:
    """Resolve a survey's names without hashing anything, to report a typo at once.

    Raises
    ------
    UnknownName, CatalogError, SettingsError
        As ``make_plan``.
    """
    targets(definition)
    for choice in definition.datasets:
        if all(holdings.has(file) for file in needed_files(choice.full_name)):
            _require_enough(holdings.opened(choice.full_name, definition.base), definition)


def _jobs(
    definition: Definition,
    choice: DatasetChoice,
    here: list[Target],
    hashed: Mapping[Checkpoint, str],
    holdings: Holdings,
) -> Iterator[Job]:
    """Yield the jobs of all models on one dataset."""
    dataset = holdings.opened(choice.full_name, definition.base)
    _require_enough(dataset, definition)
    stat, fingerprint = dataset.stat_signature(), holdings.dataset(dataset)
    for target in here:
        weights = target.checkpoint.published
        reported = weights.reported if weights else ()
        architecture = target.architecture
        yield Job(
            source=architecture.source,
            architecture=architecture.name,
            family=architecture.family,
            checkpoint=target.checkpoint,
            checkpoint_sha256=hashed[target.checkpoint],
            dataset=choice.full_name,
            base=definition.base.absolute(),
            dataset_fingerprint=fingerprint,
            dataset_stat=stat,
            images=len(dataset),
            transform=target.transform,
            settings=definition.settings,
            home=holdings.home.path if holdings.home else None,
            facts=_facts(architecture, reported),
            expectation=expectation(
                choice.full_name, target.choice.expected(choice.name), reported
            ),
            libraries=versions(definition.remeasure),
        )


def _facts(architecture: Architecture, reported: tuple[Reported, ...]) -> ModelFacts:
    source, name = architecture.source, architecture.name
    family = family_of(source, architecture.module or name, name)
    cost = counted(source, name)
    return ModelFacts(
        family_group=family.group,
        year=family.year,
        depth=cost.depth if cost else None,
        reported=reported[0] if reported else None,
    )


def _sorted_out(wanted: list[Target], holdings: Holdings) -> tuple[list[Target], list[Target]]:
    """Return the targets whose files are at hand, with their paths, and the others."""
    here, absent = [], []
    for target in wanted:
        if holdings.has(target.file):
            checkpoint = holdings.located(target.checkpoint)
            here.append(dataclasses.replace(target, checkpoint=checkpoint))
        else:
            absent.append(target)
    return here, absent


def _lacking(target: Target, choice: DatasetChoice) -> Lacking:
    return Lacking(target.architecture.full_name, target.checkpoint.reference, choice.full_name)


def _targets(choice: ModelChoice, definition: Definition) -> Iterator[Target]:
    """Yield each architecture of a choice with each of its checkpoints."""
    selected = select(choice.name)
    any_weights = False
    for each in selected:
        for reference in choice.checkpoints or (each.weights,):
            try:
                checkpoint = resolve(reference, each.architecture, definition.base)
            except CatalogError:
                if is_glob(choice.name) and reference in OPTIONAL:
                    continue
                raise
            any_weights = True
            transform = _transform(each.architecture, checkpoint, choice)
            yield Target(each.architecture, checkpoint, transform, choice)
    if not any_weights:
        raise CatalogError(
            f"none of the {len(selected)} models of {choice.name!r} has bundled or published"
            " weights",
            hint="name a checkpoint: init:SEED or file:PATH",
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
            hint=f"set images_per_score to {len(dataset)} or less (--images-per-score)"
            if len(dataset) > 1
            else "a score compares at least two images",
        )
