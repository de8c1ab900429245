"""A survey, from its declaration to the last row in the store. Read this first.

The writer's lock is taken, the plan says what is still to be done, the runner carries it out,
and every event a worker sends is made durable before the next one is taken. All state lies in
the home's stores: whatever is killed, running the same command again does what is missing.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from catalog.checkpoints import Checkpoint
from catalog.datasets.base import ImageDataset
from catalog.downloads import FileStore
from catalog.home import Home
from catalog.registry import Registry
from catalog.runs import RunState
from catalog.spool import Writer
from catalog.store import run_row, run_states
from jobs.definition import Definition
from jobs.events import BatchDone, Event, Failed, Finished, Lost, Started
from jobs.job import Job, Progress
from jobs.ledger import Ledger
from jobs.plan import Holdings, Plan, make_plan
from jobs.reporter import Reporter
from jobs.runner import Runner
from jobs.supplies import needed, supply
from jobs.verdict import suspicion
from survey import CatalogError

#: Attempts a job gets when its workers die.
MOST_ATTEMPTS = 3


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


def run_survey(
    home: Home,
    definition: Definition,
    runner: Runner,
    reporter: Reporter,
    *,
    offline: bool = False,
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
    registry = Registry(home)
    store = FileStore(home.files, offline=offline)
    holdings = holdings_of(home, registry, store)
    # Before the lock is taken: fetching takes long, and another scan may write meanwhile.
    problems = tuple(supply(needed(definition), store, reporter.fetching).values())
    with Writer.open(home) as writer:
        writer.merge()
        registry.mark_interrupted()
        states = run_states(home)
        plan = make_plan(definition, states, holdings)
        register(registry, definition, plan)
        judge_again(home, writer, plan, states)
        reporter.planned(plan)
        if not plan.todo:
            return Outcome(plan, (), (), problems)
        scan = _Scan(plan.todo, states, Ledger(writer, registry))
        with runner:
            reporter.started(runner.devices)
            for worker, event in runner.run(scan.next_job):
                settled = scan.handle(event)
                reporter.event(worker, scan.jobs[event.run_id], settled)
        return Outcome(plan, tuple(scan.done), tuple(scan.failed), problems)


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


class _Scan:
    """The jobs of one scan: which wait, how far each is, and what became of it."""

    def __init__(self, todo: Iterable[Job], states: dict[str, RunState], ledger: Ledger) -> None:
        self.jobs = {job.run_id: job for job in todo}
        self.done: list[Job] = []
        self.failed: list[tuple[Job, Failed]] = []
        self._ledger = ledger
        self._waiting = deque(self.jobs.values())
        self._lost: dict[str, int] = {}
        for job in self.jobs.values():
            ledger.resume(job, states.get(job.run_id))

    def next_job(self) -> tuple[Job, Progress] | None:
        """Give out the next job, from where its durable batches end."""
        if not self._waiting:
            return None
        job = self._waiting.popleft()
        return job, self._ledger.begin(job)

    def handle(self, event: Event) -> Event:
        """Make an event durable and return what it comes to: one loss too many is a failure."""
        job = self.jobs[event.run_id]
        if isinstance(event, Started):
            self._ledger.started(job, event)
        elif isinstance(event, BatchDone):
            self._ledger.batch(job, event)
        elif isinstance(event, Finished):
            self._ledger.finished(job, event)
            self.done.append(job)
        elif isinstance(event, Failed):
            self._fail(job, event)
        else:
            return self._lose(job, event)
        return event

    def _lose(self, job: Job, event: Lost) -> Event:
        self._lost[job.run_id] = self._lost.get(job.run_id, 0) + 1
        if self._lost[job.run_id] < MOST_ATTEMPTS:
            self._ledger.lost(job, event)
            self._waiting.appendleft(job)
            return event
        message = f"{event.message} ({MOST_ATTEMPTS} attempts)"
        hint = "is the memory enough? a smaller --micro-batch needs less"
        failed = Failed(job.run_id, "worker", message, hint, "")
        self._fail(job, failed)
        return failed

    def _fail(self, job: Job, event: Failed) -> None:
        self._ledger.failed(job, event)
        self.failed.append((job, event))
