"""The table of ``survey plan``: each job, whether it is done, and how long it may take."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from catalog.downloads import FileStore
from catalog.home import Home
from catalog.models.base import RemoteFile
from catalog.open_home import open_home
from catalog.registry.registry import Registry
from catalog.store.reader import run_states
from catalog.store.records import RunState
from jobs.planning.definition import Definition
from jobs.planning.estimate import Estimate, History, amount_of, estimate, history_of
from jobs.planning.job import Job
from jobs.planning.ordering import ordered
from jobs.planning.plan import Plan, make_plan, plain_holdings
from jobs.planning.prefetch import known_bytes, needed
from jobs.planning.preflight import memory_bytes, pixel_bytes, row_bytes
from jobs.planning.staleness import Staleness, staleness, summary
from jobs.run import holdings_of
from jobs.scan.progress_display import batches_of
from survey.text import counted, format_bytes, format_duration

#: Columns of the table.
COLUMNS = pa.schema(
    [
        ("run_id", pa.string()),
        ("architecture", pa.string()),
        ("checkpoint", pa.string()),
        ("dataset", pa.string()),
        ("images", pa.int64()),
        ("batches", pa.int64()),
        ("state", pa.string()),
        ("why", pa.string()),
        ("seconds", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Forecast:
    """A plan with the time, memory and disk its jobs may need."""

    plan: Plan
    #: One for each job of the plan, in the order in which they will be given out.
    jobs: tuple[Job, ...]
    states: tuple[str, ...]
    estimates: tuple[Estimate, ...]
    #: Bytes to fetch, as far as sizes are known, and files whose size is not.
    fetch_bytes: int
    unknown_files: int
    #: Bytes of decoded images and rows that the survey adds to the home.
    disk_bytes: int
    #: Bytes the most demanding job may hold.
    memory_bytes: int
    workers: int = 1

    def table(self) -> pa.Table:
        """Return one row a job."""
        reasons = self.plan.reasons
        rows = [
            {
                "run_id": job.run_id,
                "architecture": job.full_name,
                "checkpoint": job.checkpoint.reference,
                "dataset": job.dataset,
                "images": job.images,
                "batches": batches_of(job),
                "state": state,
                "why": str(reasons[job.run_id]) if job.run_id in reasons else None,
                "seconds": round(guess.seconds, 1),
            }
            for job, state, guess in zip(self.jobs, self.states, self.estimates, strict=True)
        ]
        # Their run ids depend on what is in files that are not here.
        rows += [{**dataclasses.asdict(job), "state": "to fetch"} for job in self.plan.lacking]
        return pa.Table.from_pylist(rows, COLUMNS)

    def summary(self) -> str:
        """Return how many jobs are done, and the time and space that the rest may need."""
        todo = [
            guess
            for guess, state in zip(self.estimates, self.states, strict=True)
            if state not in ("done", "parked", "cancelled")
        ]
        longest = max((guess.seconds * guess.factor for guess in todo), default=0.0)
        low = sum(guess.seconds / guess.factor for guess in todo) / self.workers
        high = max(sum(guess.seconds * guess.factor for guess in todo) / self.workers, longest)
        done = sum(state == "done" for state in self.states)
        kept = sum(state in ("parked", "cancelled") for state in self.states)
        held = f", {kept} parked or cancelled" if kept else ""
        lacking = f", {len(self.plan.lacking)} lack a file" if self.plan.lacking else ""
        who = counted(self.workers, "worker needs", "workers need")
        files = counted(self.unknown_files, "file")
        unknown = f" and {files} of unknown size" if self.unknown_files else ""
        jobs = (
            f"{len(todo)} to measure, {done} done{held}{lacking}; {who} "
            f"{format_duration(low)} to {format_duration(high)}"
        )
        fetch, disk, memory = map(
            format_bytes, (self.fetch_bytes, self.disk_bytes, self.memory_bytes)
        )
        sizes = f"to fetch: {fetch}{unknown}; disk: about {disk}; memory: about {memory} a worker"
        why = summary(self.plan.reasons.values())
        return "\n".join(line for line in (jobs, why, sizes) if line)


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
    held: dict[str, str] = {}
    history, holdings, store, opened = History(), plain_holdings(), None, None
    if Home(home.absolute()).signatures.is_file():
        opened = open_home(home, create=False)
        states = run_states(opened)
        store = FileStore(opened.files, offline=True)
        history = history_of(opened, device)
    with ExitStack() as closing:
        if opened and store and os.access(opened.path, os.W_OK):
            registry = closing.enter_context(Registry(opened))
            held = {job.run_id: job.state for job in registry.jobs()}
            holdings = holdings_of(opened, registry, store)
        plan = make_plan(definition, states, holdings)
    waiting = [job for job in plan.todo if held.get(job.run_id) not in ("parked", "cancelled")]
    reasons = staleness(opened, waiting) if opened else {job.run_id: Staleness() for job in waiting}
    plan = dataclasses.replace(plan, reasons=reasons)
    guesses = {
        job.run_id: estimate(job.full_name, amount_of(job, states), history) for job in plan.jobs
    }
    jobs = ordered(plan.jobs, {run_id: guess.seconds for run_id, guess in guesses.items()})
    files = _to_fetch(definition, store)
    todo = [job for job in jobs if job.run_id not in plan.done]
    return Forecast(
        plan,
        tuple(jobs),
        tuple(_state(job, states, held) for job in jobs),
        tuple(guesses[job.run_id] for job in jobs),
        known_bytes(files),
        sum(not (file.bytes or file.about_bytes) for file in files),
        pixel_bytes(todo) + row_bytes(todo, states),
        max((memory_bytes(job, history) for job in todo), default=0),
        workers,
    )


def _to_fetch(definition: Definition, store: FileStore | None) -> Sequence[RemoteFile]:
    files = needed(definition)
    return files if store is None else store.missing(files)


def _state(job: Job, states: dict[str, RunState], held: dict[str, str]) -> str:
    state = states.get(job.run_id)
    if state is not None and state.status == "done":
        return "done"
    if held.get(job.run_id) in ("parked", "cancelled"):
        return held[job.run_id]
    return f"{state.batches_done} batches done" if state else "new"
