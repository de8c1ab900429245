"""What a survey would do, as a table: each job, whether it is done, and how long it may take."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import torch

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
from jobs.plan import Plan, make_plan, plain_hashes
from jobs.progress import batches_of, duration
from jobs.run import remembering_hashes


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
        return pa.Table.from_pylist(rows)

    def summary(self) -> str:
        """Return one line: how many jobs, how many are done, and how long the rest may take."""
        todo = [e for e, state in zip(self.estimates, self.states, strict=True) if state != "done"]
        low = sum(guess.seconds / guess.factor for guess in todo)
        high = sum(guess.seconds * guess.factor for guess in todo)
        done = len(self.plan.jobs) - len(todo)
        return (
            f"{len(todo)} to measure, {done} done; one worker needs "
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
    hashes = plain_hashes()
    if Home(home.absolute()).signatures.is_file():
        opened = Home.open(home, create=False)
        states = run_states(opened)
        if os.access(opened.path, os.W_OK):
            hashes = remembering_hashes(Registry(opened))
        history = [Measured(**row) for row in run_costs(opened).to_pylist()]
    plan = make_plan(definition, states, hashes)
    gflops = {name: _gflops(name) for name in {job.full_name for job in plan.jobs}}
    estimates = tuple(
        estimate(job.full_name, gflops[job.full_name], _remaining(job, states), history)
        for job in plan.jobs
    )
    return Forecast(plan, tuple(_state(job, states) for job in plan.jobs), estimates)


def _remaining(job: Job, states: dict[str, RunState]) -> int:
    state = states.get(job.run_id)
    return job.images - (state.end_position if state else 0)


def _state(job: Job, states: dict[str, RunState]) -> str:
    state = states.get(job.run_id)
    if state is None:
        return "new"
    if state.status == "done":
        return "done"
    return f"{state.batches_done} batches done"


def _gflops(full_name: str) -> float:
    (architecture,) = find(full_name)
    try:
        with torch.device("meta"):
            model = architecture.build()
    except NotImplementedError:
        # Some constructors compute with tensors, which needs real ones.
        model = architecture.build()
    return model_cost(model.eval(), architecture.transform.size).gflops
