"""The table of ``survey plan``: each job, whether it is done, and how long it may take."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from catalog.arrow_arrays import table_of
from catalog.downloads import FileStore
from catalog.open_home import existing_home
from catalog.registry.registry import Registry
from catalog.registry.rows import JobState
from catalog.store.reader import run_states
from catalog.store.records import RunState
from catalog.tags import tags_text
from catalog.training_steps import training_step
from jobs.planning.capacity import memory_bytes, pixel_bytes, row_bytes
from jobs.planning.definition import Definition
from jobs.planning.estimate import Estimate, History, cores_of_gpu, estimate, history_of
from jobs.planning.holdings import Holdings
from jobs.planning.ordering import ordered
from jobs.planning.pairing import copies_lines, notes
from jobs.planning.plan import Plan, make_plan
from jobs.planning.prefetch import needed, size_of
from jobs.planning.score_images import notices
from jobs.planning.staleness import Staleness, staleness, summary
from jobs.planning.user_models import UnplannedJob, without_unconsented
from jobs.run import held_jobs
from jobs.scan.display_lines import batches_of
from survey.text import counted, format_bytes, format_duration

#: Columns of the table.
COLUMNS = pa.schema(
    [
        ("run_id", pa.string()),
        ("architecture", pa.string()),
        ("checkpoint", pa.string()),
        ("dataset", pa.string()),
        ("images", pa.int64()),
        ("images_per_score", pa.int64()),
        ("batches", pa.int64()),
        ("state", pa.string()),
        ("why", pa.string()),
        ("seconds", pa.float64()),
        ("measures", pa.string()),
        ("measure_seconds", pa.float64()),
        ("label", pa.string()),
        ("tags", pa.string()),
    ]
)

#: Those about measures of whole networks, which a table for readers lacks where none is asked for.
MEASURE_COLUMNS = ("measures", "measure_seconds")


@dataclass(frozen=True, slots=True)
class Forecast:
    """A plan with the time, memory and disk its jobs may need."""

    #: Its jobs are in the order in which they will be given out.
    plan: Plan
    #: How far each job is, and the time it may take, by run id.
    states: Mapping[str, str]
    estimates: Mapping[str, Estimate]
    #: What is to be fetched, as a size.
    to_fetch: str
    #: Bytes of decoded images and rows that the survey adds to the home.
    disk_bytes: int
    #: Bytes the most demanding job may hold.
    memory_bytes: int
    workers: int = 1
    #: Jobs of which nothing is known until their code may run.
    unconsented: tuple[UnplannedJob, ...] = ()
    #: Cores that a GPU needs not to wait for scores; 0 on a CPU.
    cores: float = 0.0

    def table(self) -> pa.Table:
        """Return one row a job."""
        reasons = {run_id: str(why) for run_id, why in self.plan.reasons.items()}
        unfit = self.plan.unfit
        rows = [
            {
                "run_id": job.run_id,
                "architecture": job.full_name,
                "checkpoint": (reference := job.checkpoint.reference),
                "dataset": job.dataset,
                "images": job.images,
                "images_per_score": job.settings.score_images,
                "batches": batches_of(job),
                "state": "cannot load" if job.run_id in unfit else self.states[job.run_id],
                "why": unfit.get(job.run_id) or reasons.get(job.run_id),
                **({} if job.run_id in unfit else _times(self.estimates[job.run_id])),
                "label": job.labels.label,
                "tags": tags_text({**training_step(reference), **job.labels.tags}) or None,
            }
            for job in self.plan.jobs
        ]
        # Their run ids depend on what is in files that are not here.
        rows += [{**dataclasses.asdict(job), "state": "to fetch"} for job in self.plan.lacking]
        rows += [{**dataclasses.asdict(job), "state": "unknown"} for job in self.unconsented]
        return table_of(rows, COLUMNS)

    def summary(self) -> str:
        """Return how many jobs are done, and the time and space that the rest may need."""
        unfit, loadable = self.plan.unfit, self.plan.loadable
        todo = [self.estimates[job.run_id] for job in loadable]
        longest = max((guess.seconds * guess.factor for guess in todo), default=0.0)
        low = sum(guess.seconds / guess.factor for guess in todo) / self.workers
        high = max(sum(guess.seconds * guess.factor for guess in todo) / self.workers, longest)
        done, kept = len(self.plan.done), len(self.plan.held)
        held = f", {kept} parked or cancelled" if kept else ""
        lacking = f", {len(self.plan.lacking)} lack a file" if self.plan.lacking else ""
        failing = f", {len(unfit)} cannot be loaded" if unfit else ""
        who = counted(self.workers, "worker needs", "workers need")
        time = f"; {who} {format_duration(low)} to {format_duration(high)}" if todo else ""
        jobs = f"{len(todo)} to measure, {done} done{held}{failing}{lacking}{time}"
        disk, memory = format_bytes(self.disk_bytes), format_bytes(self.memory_bytes)
        sizes = f"to fetch: {self.to_fetch}; disk: about {disk}; memory: about {memory} a worker"
        why = summary(self.plan.reasons.values())
        unknown = counted(len(self.unconsented), "job")
        code = f"{unknown} beside these: nobody consented to their code yet (--trust)"
        known = (
            *self.plan.left_out,
            *notes(self.plan.misfits),
            *copies_lines(self.plan.copies),
            *notices(self.plan.jobs, loadable, self.plan.automatic),
        )
        cores = (
            f"a GPU as fast as an H200 waits for the metrics with fewer than about {self.cores:.0f}"
            " cores, and is busy for their share of the time"
        )
        lines = (jobs, why, sizes, self.cores and cores, self.unconsented and code, *known)
        return "\n".join(each for each in lines if each)


def forecast(
    home: Path, definition: Definition, *, device: str = "cpu", workers: int = 1
) -> Forecast:
    """Plan a survey without starting anything; a home that does not exist is not made.

    Parameters
    ----------
    home : pathlib.Path
        The home; it need not exist.
    definition : Definition
        The survey.
    device : {"cpu", "cuda"}
        The device of the workers.
    workers : int
        Number of workers.
    """
    states: dict[str, RunState] = {}
    held: Mapping[str, JobState] = {}
    definition, unconsented = without_unconsented(definition)
    history, holdings, opened = History(device=device), Holdings(), existing_home(home)
    files = needed(definition, holdings.find)
    with ExitStack() as closing:
        if opened is not None:
            states, history = run_states(opened), history_of(opened, device)
            store = FileStore(opened.files, offline=True)
            files = store.missing(needed(definition, store.find))
            if os.access(opened.path, os.W_OK):
                registry = closing.enter_context(Registry(opened))
                held = held_jobs(registry)
                holdings = Holdings(opened, store, registry.hashes)
        plan = make_plan(definition, states, holdings, held)
    reasons = {job.run_id: Staleness() for job in plan.todo}
    if opened:
        reasons = staleness(opened, plan.todo, plan.added)
    estimates = {job.run_id: estimate(job, states, history) for job in plan.jobs}
    jobs = tuple(ordered(plan.jobs, {run_id: each.seconds for run_id, each in estimates.items()}))
    plan = dataclasses.replace(plan, jobs=jobs, reasons=reasons)
    todo = plan.loadable
    read = [job for job in todo if job.run_id not in plan.added]
    return Forecast(
        plan,
        {
            run_id: "measures missing" if run_id in plan.added else _state(run_id, states, held)
            for run_id in estimates
        },
        estimates,
        size_of(files),
        pixel_bytes(read) + row_bytes(read, states),
        max((memory_bytes(job, history) for job in todo), default=0),
        workers,
        unconsented,
        cores_of_gpu(todo, states) if device == "cuda" else 0.0,
    )


def _times(guess: Estimate) -> dict[str, object]:
    return {
        "seconds": round(guess.seconds, 1),
        "measures": ", ".join(guess.measures) or None,
        "measure_seconds": round(guess.measure_seconds, 1) or None,
    }


def _state(run_id: str, states: Mapping[str, RunState], held: Mapping[str, str]) -> str:
    state = states.get(run_id)
    if state is not None and state.status == "done":
        return "done"
    done = counted(state.batches_done if state else 0, "batch", "batches")
    return held.get(run_id) or (f"{done} done" if state else "new")
