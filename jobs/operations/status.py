"""The state of every job of a home, read from the stores by any process."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import asdict, dataclass
from types import NoneType
from typing import Annotated, Any, get_args, get_type_hints

from annotated_types import Interval

from catalog.checkpoint_files import natural_order
from catalog.home import Home
from catalog.registry.registry import Registry
from catalog.registry.rows import JobOverview
from catalog.store.queries import run_progress
from catalog.store.writer_lock import writing_process
from jobs.operations.flags import flag_lines

#: A service's may be anyone's: what a table of them cannot hold is none.
_Count = Annotated[int, Interval(ge=0, lt=2**63)]


@dataclass(frozen=True, slots=True)
class JobStanding:
    """A row of ``survey status``."""

    run_id: str
    architecture: str
    checkpoint: str
    dataset: str
    state: str
    batches: _Count
    images: _Count
    attempts: _Count
    top1: float | None
    suspicion: str | None
    error: str | None

    def row(self) -> dict[str, Any]:
        """Return the values by their columns."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Standing:
    """What ``survey status`` shows, of this home or of a service's."""

    items: list[JobStanding]
    #: Number of jobs, those that are not shown included.
    jobs: int
    #: What the flags of measured sites mean, in sentences.
    flags: list[str]
    #: Number of jobs in each state.
    summary: str


#: States, the most urgent first: what runs, what went wrong, the rest.
URGENCY = (
    *("running", "interrupted", "failed", "parked", "suspect"),
    *("todo", "cancelled", "done"),
)

_PLACES = {state: place for place, state in enumerate(URGENCY)}

#: Columns of the table and their types, so that a home without jobs shows them too.
COLUMNS: dict[str, type[str | int | float]] = {
    name: next((each for each in get_args(kind) if each is not NoneType), kind)
    for name, kind in get_type_hints(JobStanding).items()
}


def standing(home: Home, most: int | None = None, survey_id: int | None = None) -> Standing:
    """Return the state of all jobs, those that run or went wrong first.

    A job that the registry calls running while no scan is writing was interrupted.

    Parameters
    ----------
    home : Home
        The home.
    most : int, optional
        Number of jobs that are shown; all by default.
    survey_id : int, optional
        A declared survey whose jobs alone are meant.
    """
    writer = writing_process(home)
    reached = {row["run_id"]: row for row in run_progress(home)}
    with Registry(home) as registry:
        jobs = [
            (_state(job, reached.get(job.run_id), writer), job)
            for job in registry.overview(survey_id)
        ]
    counted = Counter(state for state, _ in jobs)
    summary = ", ".join(f"{counted[state]} {state}" for state in URGENCY if counted[state])
    doing = f"a scan is writing ({writer})" if writer else "no scan is writing"
    # Items are made of those that are shown: making them all takes longer than choosing.
    first = heapq.nsmallest(len(jobs) if most is None else most, jobs, key=_urgency)
    items = [_item(state, job, reached.get(job.run_id)) for state, job in first]
    return Standing(items, len(jobs), flag_lines(home), f"{summary or 'no jobs'}; {doing}")


def _urgency(item: tuple[str, JobOverview]) -> tuple[Any, ...]:
    state, job = item
    names = (f"{job.source}:{job.architecture}", job.checkpoint, job.dataset)
    whole = state == "done" and job.error is None
    return _PLACES[state], whole, *map(natural_order, names), job.run_id


def _state(job: JobOverview, run: dict[str, Any] | None, writer: str | None) -> str:
    if run is not None and run["status"] == "done":
        # Rows come before the registry: a scan killed in between has done the job all the same.
        return "suspect" if run["suspicion"] else "done"
    return job.state if writer or job.state != "running" else "interrupted"


def _item(state: str, job: JobOverview, run: dict[str, Any] | None) -> JobStanding:
    return JobStanding(
        run_id=job.run_id,
        architecture=f"{job.source}:{job.architecture}",
        checkpoint=job.checkpoint,
        dataset=job.dataset,
        state=state,
        batches=run["batches"] if run else 0,
        images=run["images"] if run else 0,
        attempts=job.attempt or 0,
        top1=run["measured_top1"] if run else None,
        suspicion=run["suspicion"] if run else None,
        # Of a run that is done: why a measure that was asked for later is missing.
        error=job.error if state in ("failed", "parked", "done", "suspect") else None,
    )
