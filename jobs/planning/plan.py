"""The plan of a survey: its jobs, and which of them are still to be measured.

Reads the catalog; measures nothing and starts nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from catalog.checkpoint_references import Checkpoint
from catalog.datasets import ImageDataset
from catalog.home import Home
from catalog.models.cost_table import counted
from catalog.models.family_facts import family_of
from catalog.registry.rows import JobState
from catalog.store.records import RunState
from jobs.planning.accuracy_check import expectation
from jobs.planning.definition import Definition
from jobs.planning.holdings import Holdings
from jobs.planning.job import Job, ModelFacts
from jobs.planning.measures import costs_to_foresee_by, missing_measures, require_feasible
from jobs.planning.pairing import Misfit, misfits
from jobs.planning.score_images import widths_to_choose_by, with_number
from jobs.planning.staleness import Staleness
from jobs.planning.survey_tables import DatasetChoice
from jobs.planning.targets import Target, targets
from jobs.planning.user_models import UnplannedJob
from survey import SettingsError
from survey.settings import AUTO


@dataclass(frozen=True, slots=True)
class Plan:
    """The jobs of a survey, in the order they will run."""

    #: All jobs, one a key.
    jobs: tuple[Job, ...]
    #: Run ids of the jobs that are already measured, with all that they ask for.
    done: frozenset[str]
    #: Jobs whose files are still to be fetched.
    lacking: tuple[UnplannedJob, ...] = ()
    #: Run ids of the jobs that are parked or cancelled, with their state.
    held: Mapping[str, JobState] = field(default_factory=dict)
    #: Why each remaining job is measured, by run id.
    reasons: Mapping[str, Staleness] = field(default_factory=dict)
    #: Files of weights that cannot be loaded into their networks.
    misfits: tuple[Misfit, ...] = ()
    #: Whether its networks chose their images in one score.
    automatic: bool = False
    #: Measures of the whole network that measured runs lack, by run id.
    added: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Checkpoints with the bytes of another, whose runs are theirs, by their names.
    copies: Mapping[str, str] = field(default_factory=dict)
    #: Datasets beside which lie pictures that are no part of them, and which, in lines.
    left_out: tuple[str, ...] = ()
    #: Measured batches of jobs that are still to be done, by run id.
    kept: Mapping[str, int] = field(default_factory=dict)

    @property
    def todo(self) -> tuple[Job, ...]:
        """The jobs that are still to be done."""
        return tuple(job for job in self.jobs if job.run_id not in self.done | self.held.keys())

    @property
    def loadable(self) -> tuple[Job, ...]:
        """The jobs still to be done whose weights fit their networks."""
        unfit = self.unfit
        return tuple(job for job in self.todo if job.run_id not in unfit)

    def held_as(self, state: JobState) -> tuple[Job, ...]:
        """Return the jobs that are left out, since they are parked or cancelled."""
        return tuple(job for job in self.jobs if self.held.get(job.run_id) == state)

    @property
    def unfit(self) -> Mapping[str, str]:
        """Why some of the jobs still to be done will fail, by run id: their weights do not fit."""
        whys = {each.pair: each.why for each in self.misfits}
        pairs = {job.run_id: (job.full_name, job.checkpoint) for job in self.todo}
        return {run_id: whys[pair] for run_id, pair in pairs.items() if pair in whys}


def make_plan(
    definition: Definition,
    states: Mapping[str, RunState],
    holdings: Holdings,
    held: Mapping[str, JobState] = MappingProxyType({}),
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
    held : mapping of str to JobState
        Run ids of jobs that are parked or cancelled, with their state.

    Returns
    -------
    Plan
        Jobs grouped by dataset, in the order declared, each key once.

    Raises
    ------
    UnknownName, CatalogError
        If a model, checkpoint or dataset is unknown or unusable.
    SettingsError
        If a dataset holds fewer images than one score needs, or a measure of the whole network
        would not be done in time.
    """
    here, absent = _sorted_out(targets(definition), holdings)
    hashed = {target.checkpoint: holdings.sha256(target.checkpoint) for target in here}
    unfit = misfits(here, definition, holdings, hashed)
    left_out = {each.pair for each in unfit if each.passed_over}
    left_out -= {each.pair for each in unfit if not each.passed_over}
    here = [each for each in here if (each.architecture.full_name, each.checkpoint) not in left_out]
    names = [target.architecture.full_name for target in here]
    widths = widths_to_choose_by(definition.settings, names)
    costs = costs_to_foresee_by(definition.measures, names)
    jobs: dict[str, Job] = {}
    copies: dict[str, str] = {}
    lacking: list[UnplannedJob] = []
    beside: dict[str, None] = {}
    for choice in definition.datasets:
        dataset = _opened(choice, definition, holdings)
        lacking += [
            UnplannedJob(
                target.architecture.full_name, target.checkpoint.reference, choice.full_name
            )
            for target in ([*here, *absent] if dataset is None else absent)
        ]
        if dataset is not None:
            if dataset.left_out:
                beside[f"{choice.name}: {dataset.left_out} left out"] = None
            for job in _jobs(definition, choice, dataset, here, hashed, holdings, widths):
                require_feasible(job)
                costed = dataclasses.replace(job, cost=costs.get(job.full_name))
                first = jobs.setdefault(job.key, costed)
                if first is not costed:
                    labels = first.labels.or_else(job.labels)
                    jobs[job.key] = dataclasses.replace(first, labels=labels)
                if (name := job.checkpoint.reference) != first.checkpoint.reference:
                    copies[name] = first.checkpoint.reference
    run_ids = frozenset(job.run_id for job in jobs.values())
    measured = run_ids & {run_id for run_id, state in states.items() if state.status == "done"}
    added = {
        job.run_id: missing
        for job in jobs.values()
        if job.run_id in measured
        and (missing := missing_measures(job.measures, states[job.run_id].measures))
    }
    done = measured - added.keys()
    auto = definition.settings.images_per_score == AUTO
    return Plan(
        tuple(jobs.values()),
        done,
        tuple(lacking),
        {run_id: state for run_id, state in held.items() if run_id in run_ids - done},
        misfits=unfit,
        automatic=auto,
        added=added,
        copies=copies,
        left_out=tuple(beside),
        kept={
            run_id: states[run_id].batches_done
            for run_id in (run_ids - measured - held.keys()) & states.keys()
            if states[run_id].batches_done
        },
    )


def check(definition: Definition, home: Path) -> None:
    """Resolve a survey's names without hashing anything, to report a typo at once.

    Parameters
    ----------
    definition : Definition
        The survey.
    home : pathlib.Path
        A home, existing or not.

    Raises
    ------
    UnknownName, CatalogError, SettingsError
        As ``make_plan``.
    """
    holdings = Holdings(Home(home.absolute()))
    targets(definition)
    for choice in definition.datasets:
        _opened(choice, definition, holdings)


def _jobs(
    definition: Definition,
    choice: DatasetChoice,
    dataset: ImageDataset,
    here: list[Target],
    hashed: Mapping[Checkpoint, str],
    holdings: Holdings,
    widths: Mapping[str, Mapping[int, int]],
) -> Iterator[Job]:
    """Yield the jobs of all models on one dataset."""
    stat, fingerprint = dataset.stat_signature(), holdings.fingerprint(dataset)
    for target in here:
        weights, architecture = target.checkpoint.published, target.architecture
        reported = weights.reported if weights else ()
        # Of random weights nobody expects what the trained ones reach.
        random = target.checkpoint.kind == "init"
        declared = None if random else target.choice.expected(choice.name)
        source, name = architecture.source, architecture.name
        family = family_of(source, architecture.module or name, name)
        cost = counted(source, name)
        yield Job(
            source=source,
            architecture=name,
            family=architecture.family,
            checkpoint=target.checkpoint,
            checkpoint_sha256=hashed[target.checkpoint],
            dataset=choice.full_name,
            base=definition.base,
            dataset_fingerprint=fingerprint,
            dataset_stat=stat,
            images=len(dataset),
            transform=target.transform,
            settings=with_number(
                definition.settings, widths.get(architecture.full_name, {}), len(dataset)
            ),
            home=holdings.home.path if holdings.home else None,
            facts=ModelFacts(
                family_group=family.group,
                year=family.year,
                depth=cost.depth if cost else None,
                reported=reported[0] if reported else None,
            ),
            expectation=expectation(choice.full_name, declared, reported),
            code_sha256=architecture.code_sha256,
            libraries=definition.library_versions,
            measures=definition.measures,
            labels=target.labels.on(choice.label, name),
        )


def _sorted_out(wanted: list[Target], holdings: Holdings) -> tuple[list[Target], list[Target]]:
    """Return the targets whose files are at hand, with their paths, and the others."""
    here, absent = [], []
    for target in wanted:
        needed = target.files(holdings.find)
        paths = [path for file in needed.files if (path := holdings.find(file))]
        if not needed.complete or len(paths) < len(needed.files):
            absent.append(target)
        elif not paths:
            here.append(target)
        else:
            checkpoint = target.checkpoint.located(*paths)
            if checkpoint.kind == "hub":
                checkpoint = dataclasses.replace(checkpoint, remote=needed.files)
            here.append(dataclasses.replace(target, checkpoint=checkpoint))
    return here, absent


def _opened(
    choice: DatasetChoice, definition: Definition, holdings: Holdings
) -> ImageDataset | None:
    """Return a dataset with images enough for a score; None where files of it are missing."""
    dataset = holdings.open(choice.full_name, definition.base)
    declared = definition.settings.images_per_score
    wanted = 2 if declared == AUTO else declared
    if dataset is not None and len(dataset) < wanted:
        raise SettingsError(
            f"{dataset.name} has {len(dataset)} of the {wanted} images that images_per_score needs"
            + (f"; {dataset.left_out} left out" if dataset.left_out else ""),
            hint=f"set images_per_score to {len(dataset)} or less (--images-per-score)"
            if len(dataset) > 1
            else "a score compares at least two images",
        )
    return dataset
