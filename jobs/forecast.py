"""What a survey would do, as a table: each job, whether it is done, and how long it may take."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import torch

from catalog.checkpoints import builder
from catalog.downloads import FileStore
from catalog.home import Home
from catalog.models import find
from catalog.models.cost import model_cost
from catalog.queries import run_costs
from catalog.registry import Registry
from catalog.runs import RunState
from catalog.store import run_states
from jobs.definition import Definition
from jobs.estimate import Estimate, Measured, estimate
from jobs.job import Job
from jobs.plan import Plan, make_plan, plain_holdings
from jobs.progress import batches_of, duration
from jobs.run import holdings_of

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
        ("seconds", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Forecast:
    """A plan and what its jobs may take."""

    plan: Plan
    #: One for each job of the plan, in its order.
    states: tuple[str, ...]
    estimates: tuple[Estimate, ...]

    def table(self) -> pa.Table:
        """Return one row a job."""
        rows = [
            {
                "run_id": job.run_id,
                "architecture": job.full_name,
                "checkpoint": job.checkpoint.reference,
                "dataset": job.dataset,
                "images": job.images,
                "batches": batches_of(job),
                "state": state,
                "seconds": round(guess.seconds, 1),
            }
            for job, state, guess in zip(self.plan.jobs, self.states, self.estimates, strict=True)
        ]
        # Their run ids depend on what is in files that are not here.
        rows += [{**dataclasses.asdict(job), "state": "to fetch"} for job in self.plan.lacking]
        return pa.Table.from_pylist(rows, COLUMNS)

    def summary(self) -> str:
        """Return one line: how many jobs, how many are done, and how long the rest may take."""
        todo = [e for e, state in zip(self.estimates, self.states, strict=True) if state != "done"]
        low = sum(guess.seconds / guess.factor for guess in todo)
        high = sum(guess.seconds * guess.factor for guess in todo)
        done = len(self.plan.jobs) - len(todo)
        lacking = f", {len(self.plan.lacking)} lack a file" if self.plan.lacking else ""
        return (
            f"{len(todo)} to measure, {done} done{lacking}; one worker needs "
            f"{duration(low)} to {duration(high)}"
        )


def forecast(home: Path, definition: Definition) -> Forecast:
    """Plan a survey without starting anything; a home that does not exist is not made.

    Parameters
    ----------
    home : pathlib.Path
        Where what was measured is kept, if it exists.
    definition : Definition
        The survey.
    """
    states: dict[str, RunState] = {}
    history: list[Measured] = []
    holdings = plain_holdings()
    if Home(home.absolute()).signatures.is_file():
        opened = Home.open(home, create=False)
        states = run_states(opened)
        if os.access(opened.path, os.W_OK):
            holdings = holdings_of(opened, Registry(opened), FileStore(opened.files, offline=True))
        history = [Measured(**row) for row in run_costs(opened).to_pylist()]
    plan = make_plan(definition, states, holdings)
    gflops: dict[tuple[str, int], float] = {}
    for job in plan.jobs:
        if (job.full_name, job.transform.size) not in gflops:
            gflops[job.full_name, job.transform.size] = _gflops(job)
    estimates = tuple(
        estimate(
            job.full_name,
            gflops[job.full_name, job.transform.size],
            _remaining(job, states),
            history,
        )
        for job in plan.jobs
    )
    return Forecast(plan, tuple(_state(job, states) for job in plan.jobs), estimates)


def _remaining(job: Job, states: dict[str, RunState]) -> int:
    state = states.get(job.run_id)
    return job.images - (state.images + state.skipped_images if state else 0)


def _state(job: Job, states: dict[str, RunState]) -> str:
    state = states.get(job.run_id)
    if state is None:
        return "new"
    if state.status == "done":
        return "done"
    return f"{state.batches_done} batches done"


def _gflops(job: Job) -> float:
    (architecture,) = find(job.full_name)
    build = builder(architecture, job.checkpoint)
    try:
        with torch.device("meta"):
            model = build()
    except NotImplementedError:
        # Some constructors compute with tensors, which needs real ones.
        model = build()
    return model_cost(model.eval(), job.transform.size).gflops
