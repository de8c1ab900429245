"""A survey, from its declaration to the last row in the store. Read this first.

The writer's lock is taken, the plan says what is still to be done, the runner carries it out,
and every event a worker sends is made durable before the next one is taken. All state lies in
the home's stores: whatever is killed, running the same command again does what is missing.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from catalog.checkpoints import Checkpoint
from catalog.datasets.base import ImageDataset
from catalog.downloads import FileStore
from catalog.home import Home
from catalog.registry.registry import Registry
from catalog.store.queries import batch_affinities
from catalog.store.reader import run_row, run_states
from catalog.store.records import RunState
from catalog.store.writer import Writer
from jobs.planning.accuracy_check import suspicion
from jobs.planning.definition import Definition
from jobs.planning.estimate import history_of, seconds_of
from jobs.planning.job import Job
from jobs.planning.ordering import ordered
from jobs.planning.plan import Holdings, Plan, make_plan
from jobs.planning.prefetch import needed, supply
from jobs.planning.preflight import require_room, tight_memory
from jobs.planning.staleness import staleness
from jobs.runners.base import Runner
from jobs.runners.events import Failed
from jobs.runners.options import Limits
from jobs.scan.dispatch import Scan
from jobs.scan.job_progress import Account
from jobs.scan.recorder import Ledger
from jobs.scan.reporter import Reporter
from survey import CatalogError


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a survey."""

    #: All jobs and those that were done before.
    plan: Plan
    #: Jobs measured to the end now.
    done: tuple[Job, ...]
    #: Jobs that failed now, with the last word on each.
    failed: tuple[tuple[Job, Failed], ...]
    #: Why files that some jobs need could not be fetched.
    unfetched: tuple[CatalogError, ...] = ()
    #: Jobs that somebody cancelled meanwhile.
    cancelled: tuple[Job, ...] = ()


def run_survey(
    home: Home,
    definition: Definition,
    runner: Runner,
    reporter: Reporter,
    *,
    offline: bool = False,
    limits: Limits | None = None,
) -> Outcome:
    """Measure what a survey declares and the home does not hold yet.

    Parameters
    ----------
    home : Home
        Where everything is kept. Only one scan at a time writes to it.
    definition : Definition
        What to measure.
    runner : Runner
        Who carries the jobs out. It is entered only if there is something to do.
    reporter : Reporter
        Who is told of progress.
    offline : bool
        Whether to fetch nothing.
    limits : Limits, optional
        What jobs are allowed: time, lost workers, several workers at once.

    Returns
    -------
    Outcome
        What was done, skipped and failed.

    Raises
    ------
    StoreError
        If another scan is writing to the home, or a store cannot be written.
    SettingsError, CatalogError
        If the survey cannot be planned, or files are lacking offline; nothing is started then.
    ClusterError
        If the runner cannot start.
    """
    limits = limits or Limits()
    registry = Registry(home)
    store = FileStore(home.files, offline=offline)
    holdings = holdings_of(home, registry, store)
    # Before the lock is taken: fetching takes long, and another scan may write meanwhile.
    problems = tuple(supply(needed(definition), store, reporter.fetching).values())
    with Writer.open(home) as writer:
        writer.merge()
        registry.mark_interrupted()
        states = run_states(home)
        plan = make_plan(definition, states, holdings, held_back(registry))
        plan = dataclasses.replace(plan, reasons=staleness(home, plan.todo))
        register(registry, definition, plan)
        judge_again(home, writer, plan, states)
        reporter.planned(plan)
        if not plan.todo:
            return Outcome(plan, (), (), problems)
        with runner:
            require_room(home, plan.todo, states, runner.devices, runner.machines)
            reporter.started(runner.devices)
            history = history_of(home, runner.devices.kind)
            if tight := tight_memory(plan.todo, history, runner.devices, runner.machines):
                reporter.warned(tight)
            ledger = Ledger(writer, registry, home.logs, limits.losses)
            seconds = seconds_of(plan.todo, states, history)
            losses = {job.run_id: job.losses for job in registry.jobs()}
            accounts = opened(home, ordered(plan.todo, seconds), states, losses)
            scan = Scan(accounts, seconds, ledger, registry, runner.devices, limits)
            for words in runner.run(scan):
                for word in scan.handle(words):
                    reporter.event(word.worker, scan.job(word.event.run_id), word.event)
        return Outcome(plan, tuple(scan.done), tuple(scan.failed), problems, tuple(scan.cancelled))


def holdings_of(home: Home, registry: Registry, store: FileStore) -> Holdings:
    """Return what a home holds, with hashing that asks the registry before it reads files again."""

    def checkpoint(checkpoint: Checkpoint) -> str:
        if checkpoint.path is None:
            return checkpoint.sha256()
        return registry.hashes.checkpoint_sha256(checkpoint.path)

    def dataset(dataset: ImageDataset) -> str:
        return registry.hashes.dataset_fingerprint(
            dataset.name, dataset.stat_signature(), dataset.fingerprint, len(dataset)
        )

    return Holdings(checkpoint, dataset, store, home)


def held_back(registry: Registry) -> frozenset[str]:
    """Return the run ids of jobs that wait for a person: parked or cancelled."""
    return frozenset(job.run_id for job in registry.jobs() if job.state in ("parked", "cancelled"))


def opened(
    home: Home, jobs: Iterable[Job], states: dict[str, RunState], losses: dict[str, int]
) -> Iterator[Account]:
    """Yield the accounts of jobs, with the scores of their durable batches where there are some."""
    jobs = list(jobs)
    begun = [job.run_id for job in jobs if job.run_id in states]
    scores: defaultdict[str, dict[int, list[tuple[int, float | None]]]] = defaultdict(dict)
    for row in batch_affinities(home, begun).to_pylist() if begun else ():
        batch = scores[row["run_id"]].setdefault(row["batch"], [])
        batch.append((row["site"], row["affinity"]))
    for job in jobs:
        batches = scores[job.run_id].values()
        yield Account(job, states.get(job.run_id), batches, losses.get(job.run_id, 0))


def register(registry: Registry, definition: Definition, plan: Plan) -> None:
    """Record a survey and its jobs."""
    survey_id = registry.record_survey(
        definition.name, {**definition.to_dict(), "base": str(definition.base.absolute())}
    )
    registry.add_jobs(survey_id, [job.to_entry() for job in plan.jobs])


def judge_again(home: Home, writer: Writer, plan: Plan, states: dict[str, RunState]) -> None:
    """Hold finished runs against accuracies that are expected of them only now."""
    for job in plan.jobs:
        expected, state = job.expectation, states.get(job.run_id)
        if expected is None or state is None or job.run_id not in plan.done:
            continue
        if state.expected_top1 != expected.top1:
            verdict = suspicion(expected, state.measured_top1, state.images)
            record = dataclasses.replace(
                run_row(home, job.run_id),
                expected_top1=expected.top1,
                expected_source=expected.source,
                suspicion=verdict,
            )
            writer.write_run(record)
