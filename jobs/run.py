"""A survey, from its declaration to the last row in the store. Read this first.

A survey is planned into jobs, one for each model, checkpoint and dataset. The runner's workers
measure those that the store does not hold yet, and every batch of scores is made durable before
more are taken. All state lies in the home's stores: after a crash the same command continues with
what is missing.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from catalog.downloads import FileStore
from catalog.home import Home
from catalog.registry.registry import Registry
from catalog.registry.rows import JobState
from catalog.store.queries import batch_affinities
from catalog.store.reader import run_states
from catalog.store.records import RunState
from catalog.store.writer import Writer
from catalog.training_steps import training_step
from jobs.planning.capacity import require_room, tight_memory
from jobs.planning.definition import Definition
from jobs.planning.estimate import estimate, history_of
from jobs.planning.holdings import Holdings
from jobs.planning.job import Job
from jobs.planning.ordering import ordered
from jobs.planning.pairing import copies_lines, notes
from jobs.planning.plan import Plan, make_plan
from jobs.planning.prefetch import supply
from jobs.planning.staleness import staleness
from jobs.runners.base import Runner
from jobs.runners.events import Failed
from jobs.runners.options import Limits
from jobs.scan.dispatch import Dispatcher
from jobs.scan.interruption import interruptions_kept, raise_if_interrupted
from jobs.scan.job_log import append
from jobs.scan.job_progress import JobProgress
from jobs.scan.progress_file import ProgressFile
from jobs.scan.recorder import Recorder
from jobs.scan.reporter import Reporter
from jobs.scan.run_updates import note_cancelled, update_runs
from survey import CatalogError


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a survey ended."""

    #: All jobs, and which of them were measured before.
    plan: Plan
    #: Jobs that were measured now.
    done: tuple[Job, ...]
    #: Jobs that failed now, with the failure of each.
    failed: tuple[tuple[Job, Failed], ...]
    #: Why files that some jobs need could not be fetched.
    unfetched: tuple[CatalogError, ...] = ()
    #: Jobs that were cancelled meanwhile.
    cancelled: tuple[Job, ...] = ()

    @property
    def parked(self) -> tuple[Job, ...]:
        """Jobs that were parked before: they are not measured until somebody retries them."""
        return self.plan.held_as("parked")

    @property
    def complete(self) -> bool:
        """Whether all is measured that nobody cancelled."""
        return not (self.failed or self.unfetched or self.parked)


def run_survey(
    home: Home,
    definition: Definition,
    runner: Runner,
    reporter: Reporter,
    *,
    offline: bool = False,
    limits: Limits | None = None,
) -> Outcome:
    """Measure the jobs of a survey that a home does not hold yet.

    Parameters
    ----------
    home : Home
        Where results and files are kept. Only one scan at a time writes to it.
    definition : Definition
        The survey.
    runner : Runner
        Computes the jobs. It is entered only if there are some to measure.
    reporter : Reporter
        Shows the progress.
    offline : bool
        Whether to fetch nothing.
    limits : Limits, optional
        What jobs are allowed: time, lost workers, several workers at once.

    Returns
    -------
    Outcome
        The jobs that were measured, skipped and failed.

    Raises
    ------
    StoreError
        If another scan is writing to the home, or a store cannot be written.
    SettingsError, CatalogError
        If the survey cannot be planned, or files are missing offline; nothing is started then.
    CapacityError
        If the disk has no room for the rows, or no machine for a network.
    ClusterError
        If the runner cannot start.
    """
    store = FileStore(home.files, offline=offline)
    with ProgressFile(home, reporter) as noting, interruptions_kept():
        # Before the writer's lock is taken: fetching takes long, and another scan may write then.
        unfetched = tuple(supply(definition, store, noting.fetching).values())
        outcome = _measure(home, definition, runner, noting, store, limits or Limits())
    return dataclasses.replace(outcome, unfetched=unfetched)


def _measure(
    home: Home,
    definition: Definition,
    runner: Runner,
    reporter: Reporter,
    store: FileStore,
    limits: Limits,
) -> Outcome:
    """Plan a survey and measure its jobs, as the one scan that writes to the home."""
    with Registry(home) as registry, Writer.open(home) as writer:
        writer.merge()
        for run_id, attempt in registry.mark_interrupted():
            append(home.logs, run_id, f"attempt {attempt}: interrupted")
        states = run_states(home)
        holdings = Holdings(home, store, registry.hashes)
        plan = make_plan(definition, states, holdings, held_jobs(registry))
        plan = dataclasses.replace(plan, reasons=staleness(home, plan.todo, plan.added))
        record_plan(registry, definition, plan)
        reporter.planned(plan)
        for note in (*plan.left_out, *notes(plan.misfits), *copies_lines(plan.copies)):
            reporter.warned(note)
        update_runs(home, writer, registry, plan, states, reporter)
        if not plan.todo:
            return Outcome(plan, (), ())
        with runner:
            loadable = plan.loadable
            require_room(home, loadable, states, runner.devices, runner.machines)
            history = history_of(home, runner.devices.kind)
            estimates = {job.run_id: estimate(job, states, history) for job in plan.todo}
            reporter.started(runner.devices, estimates)
            if warning := tight_memory(loadable, history, runner.devices, runner.machines):
                reporter.warned(warning)
            seconds = {run_id: each.seconds for run_id, each in estimates.items()}
            jobs = progress_of(home, registry, ordered(plan.todo, seconds), states)
            recorder = Recorder(jobs, writer, registry, home.logs, limits.losses)

            def planned_anew(job: Job) -> JobProgress | None:
                anew = with_present_weights(job, holdings, registry, definition, reporter)
                if anew is not None:
                    run_id, waits = anew.job.run_id, not (anew.closed or anew.job.run_id in jobs)
                    if waits:
                        # The dispatcher and the reporter have the estimates too.
                        estimates[run_id] = estimate(anew.job, {run_id: anew.state}, history)
                    reporter.replaced(job, anew.job if waits else None)
                return anew

            dispatcher = Dispatcher(
                jobs,
                estimates,
                recorder,
                registry,
                runner.devices,
                limits,
                planned_anew,
                reporter.withdrawn,
            )
            for events in runner.run(dispatcher):
                # Before they are recorded: an interruption may look like a job's failure.
                raise_if_interrupted()
                for event in dispatcher.handle(events):
                    reporter.event(dispatcher.job(event.run_id), event)
        note_cancelled(home, writer, dispatcher.cancelled)
    done, failed = tuple(dispatcher.done), tuple(dispatcher.failed)
    present = (dispatcher.replaced.get(job.run_id, job) for job in plan.jobs)
    plan = dataclasses.replace(plan, jobs=tuple({job.key: job for job in present}.values()))
    return Outcome(plan, done, failed, cancelled=tuple(dispatcher.cancelled))


def held_jobs(registry: Registry) -> dict[str, JobState]:
    """Return the run ids of jobs that are parked or cancelled, with their state."""
    jobs = registry.jobs()
    return {job.run_id: job.state for job in jobs if job.state in ("parked", "cancelled")}


def declared(definition: Definition) -> dict[str, Any]:
    """Return a survey as the registry records it."""
    return {**definition.to_dict(), "base": str(definition.base)}


def record_plan(registry: Registry, definition: Definition, plan: Plan) -> None:
    """Record a survey, its jobs, and the labels and tags of these in the registry."""
    survey_id = registry.record_survey(definition.name, declared(definition))
    registry.add_jobs(survey_id, [job.to_entry() for job in plan.jobs])
    labels = {job.run_id: job.labels for job in plan.jobs}
    if definition.origin is None:
        registry.labels.set(labels)
    else:
        registry.labels.declare(definition.origin, labels, definition.by_hand)
    steps = {job.run_id: training_step(job.checkpoint.reference) for job in plan.jobs}
    registry.labels.add_tags(steps)


def with_present_weights(
    job: Job, holdings: Holdings, registry: Registry, definition: Definition, reporter: Reporter
) -> JobProgress | None:
    """Plan a job anew whose weights are not those that were planned, and report it.

    Returns
    -------
    JobProgress or None
        The progress of the job with the weights that its file has by now, closed if these are
        measured already; None if the file is the planned one, is gone, or is a published one.
    """
    home = holdings.home
    if home is None or not job.checkpoint.files:
        return None
    # Whatever it looks like: else every further run would plan what is no more.
    for path in job.checkpoint.files:
        registry.hashes.forget(path)
    try:
        sha256 = holdings.sha256(job.checkpoint)
    except CatalogError:
        return None
    if sha256 == job.checkpoint_sha256 or job.checkpoint.published:
        return None
    anew = dataclasses.replace(job, checkpoint_sha256=sha256)
    record_plan(registry, definition, Plan((anew,), frozenset()))
    reporter.warned(f"{job.title}: the weights changed since the plan; they are run {anew.run_id}")
    states = run_states(home)
    progress = progress_of(home, registry, [anew], states)[anew.run_id]
    if (progress.complete and not progress.measures) or anew.run_id in held_jobs(registry):
        progress.close()
    return progress


def progress_of(
    home: Home, registry: Registry, jobs: Sequence[Job], states: dict[str, RunState]
) -> dict[str, JobProgress]:
    """Return the progress of jobs by run id, with the scores of their durable batches."""
    # The scores of a finished run decide nothing any more.
    open_runs = {run_id for run_id, state in states.items() if state.status != "done"}
    begun = [job.run_id for job in jobs if job.run_id in open_runs]
    scores: defaultdict[str, dict[int, list[tuple[int, float | None]]]] = defaultdict(dict)
    for row in batch_affinities(home, begun).to_pylist() if begun else ():
        batch = scores[row["run_id"]].setdefault(row["batch"], [])
        batch.append((row["site"], row["affinity"]))
    losses = {job.run_id: job.losses for job in registry.jobs()}
    return {
        job.run_id: JobProgress(
            job, states.get(job.run_id), scores[job.run_id].values(), losses.get(job.run_id, 0)
        )
        for job in jobs
    }
