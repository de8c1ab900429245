"""A sweep of linearisations, from its declaration to the last result in the home.

The runner's workers train what the home does not hold yet. The state after every pass is made
durable before the next is taken, so that after a crash the same command goes on within a training.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from filelock import FileLock, Timeout

from catalog.arrow_arrays import table_of
from catalog.downloads import FileStore
from catalog.home import Home
from catalog.linearisations import read_result, state_path, write_result
from catalog.registry.registry import Registry
from catalog.training_checkpoints import load_training, save_training
from jobs.planning.holdings import Holdings
from jobs.planning.linearisation import LinearisationJob, LinearisationSweep
from jobs.planning.training_cost import seconds_a_pass
from jobs.runners.base import Runner
from jobs.runners.events import (
    Event,
    Failed,
    Finished,
    Host,
    Lost,
    NetworkLinearised,
    Returned,
    Trained,
)
from jobs.runners.options import Limits
from jobs.runners.task import TrainingTask
from jobs.scan.interruption import interruptions_kept, raise_if_interrupted
from survey.errors import StoreError

#: Workers that a training may lose in a row, without a pass, before it has failed.
LOSSES = Limits().losses

#: Takes a job, an event of it, and its passes that are done.
Report = Callable[[LinearisationJob, Event, int], object]

#: Columns of the table.
COLUMNS = pa.schema(
    [
        ("run_id", pa.string()),
        ("model", pa.string()),
        ("beginning", pa.string()),
        ("omega", pa.float64()),
        ("seed", pa.int64()),
        ("state", pa.string()),
        ("passes", pa.int64()),
        ("top1", pa.float64()),
        ("path_length", pa.float64()),
        ("path_length_normalised", pa.float64()),
        ("active_fraction", pa.float64()),
        ("shape", pa.string()),
        ("seconds", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Linearisation:
    """One training of a sweep, and how far the home has it."""

    job: LinearisationJob
    #: Its passes that are kept.
    passes: int
    #: Its result, once it is done.
    result: dict[str, Any] | None
    #: Seconds that are left of it, as far as they are known.
    seconds: float | None = None
    #: Whether it failed now.
    failed: bool = False

    def row(self) -> dict[str, object]:
        """Return its row of the table: the seconds are those that were taken, or are left."""
        job, settings, result = self.job, self.job.settings, self.result or {}
        begun = f"{self.passes} of {settings.passes} passes" if self.passes else "todo"
        begun = "failed" if self.failed else begun
        taken = result.get("seconds_a_pass")
        names = ("top1", "path_length", "path_length_normalised", "active_fraction")
        return {
            "run_id": job.run_id,
            "model": job.trained.full_name,
            "beginning": job.beginning,
            "omega": settings.omega,
            "seed": settings.seed,
            "state": "done" if self.result else begun,
            "passes": settings.passes,
            **{name: result.get(name) for name in names},
            "shape": " ".join(
                f"{site['active']}/{site['channels']}" for site in result.get("sites", ())
            ),
            "seconds": self.seconds if taken is None else taken * settings.passes,
        }


def linearisation_table(linearisations: Iterable[Linearisation]) -> pa.Table:
    """Return a row for each linearisation; the shape is active channels of all, site by site."""
    return table_of([each.row() for each in linearisations], COLUMNS)


def planned_linearisations(home: Home | None, sweep: LinearisationSweep) -> list[Linearisation]:
    """Return the trainings of a sweep, with the time that those which are not done may take.

    Parameters
    ----------
    home : Home or None
        Opened; None where there is none yet.
    sweep : LinearisationSweep
        What is trained.

    Raises
    ------
    UnknownName, CatalogError, SettingsError
        If the sweep cannot be planned.
    """
    if home is None:
        kept = [Linearisation(job, 0, None) for job in sweep.jobs(Holdings())]
    else:
        kept = linearisations(home, _jobs(home, sweep))
    return [each if each.result else replace(each, seconds=_seconds_left(each)) for each in kept]


def _seconds_left(training: Linearisation) -> float:
    return (training.job.settings.passes - training.passes) * seconds_a_pass(training.job)


def run_linearisations(
    home: Home,
    planned: Sequence[Linearisation],
    runner: Runner,
    report: Report,
) -> list[tuple[LinearisationJob, Failed]]:
    """Train what is not done yet.

    Parameters
    ----------
    home : Home
        Opened. Only one sweep at a time writes to it.
    planned : sequence of Linearisation
        The trainings.
    runner : Runner
        Computes them. It is entered only if there are some to train.
    report : callable
        Called with a job, an event of it, and the passes that are done.

    Returns
    -------
    list of LinearisationJob and Failed
        What failed.

    Raises
    ------
    StoreError
        If another sweep is writing to the home, or a state cannot be written.
    ClusterError
        If the runner cannot start.
    """
    todo = [each.job for each in planned if each.result is None]
    if not todo:
        return []
    with _alone(home), interruptions_kept(), runner:
        trainings = _Trainings(home, todo)
        for events in runner.run(trainings):
            raise_if_interrupted()
            for event in events:
                trainings.handle(event, report)
    return trainings.failed


def linearisations(
    home: Home, jobs: Iterable[LinearisationJob], failed: Collection[str] = ()
) -> list[Linearisation]:
    """Return the results of jobs as far as the home has them, and which failed now by run id."""
    kept = []
    for job in jobs:
        state = load_training(state_path(home, job.run_id))
        passes = len(state.passes) if state else 0
        result = read_result(home, job.run_id)
        kept.append(Linearisation(job, passes, result, failed=job.run_id in failed))
    return kept


def _jobs(home: Home, sweep: LinearisationSweep) -> tuple[LinearisationJob, ...]:
    with Registry(home) as registry:
        store = FileStore(home.files, offline=True)
        return sweep.jobs(Holdings(home, store, registry.hashes))


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    home.linearisations.mkdir(exist_ok=True)
    lock = FileLock(home.linearisations / "writer.lock", timeout=0)
    try:
        with lock:
            yield
    except Timeout as error:
        raise StoreError(
            f"another survey linearise is writing to {home.path}", hint="wait for it to end"
        ) from error


class _Trainings:
    """The trainings that are left: the ``TaskSource`` of the runner."""

    def __init__(self, home: Home, jobs: Sequence[LinearisationJob]) -> None:
        self.failed: list[tuple[LinearisationJob, Failed]] = []
        self._home = home
        self._jobs = {job.run_id: job for job in jobs}
        self._waiting = deque(self._jobs)
        #: The present attempt at each job that was given out; 0 once it is over.
        self._attempts = dict.fromkeys(self._jobs, 0)
        self._losses = dict.fromkeys(self._jobs, 0)
        self._passes = dict.fromkeys(self._jobs, 0)
        self._numbers = 0

    def next_tasks(self, host: Host) -> tuple[TrainingTask, ...]:  # noqa: ARG002 - all suit all
        """Return the next training, from the last pass that is kept; see ``TaskSource``."""
        if not self._waiting:
            return ()
        run_id = self._waiting.popleft()
        state = load_training(state_path(self._home, run_id))
        self._passes[run_id] = len(state.passes) if state else 0
        self._numbers += 1
        self._attempts[run_id] = self._numbers
        return (TrainingTask(self._jobs[run_id], self._numbers, state),)

    def is_withdrawn(self, run_id: str) -> bool:  # noqa: ARG002 - none can be cancelled
        """Return that no training was withdrawn; see ``TaskSource``."""
        return False

    def is_over(self) -> bool:
        """Return whether every training is over; see ``TaskSource``."""
        return not self._waiting and not any(self._attempts.values())

    def handle(self, event: Event, report: Report) -> None:
        """Make an event durable, then report it; those of attempts given up are ignored."""
        run_id, job = event.run_id, self._jobs[event.run_id]
        if event.attempt != self._attempts[run_id]:
            return
        if isinstance(event, Trained):
            save_training(state_path(self._home, run_id), event.state)
            self._passes[run_id], self._losses[run_id] = len(event.state.passes), 0
        elif isinstance(event, NetworkLinearised):
            write_result(self._home, {**job.described(), **event.result})
        elif isinstance(event, (Lost, Returned)):
            event = self._given_back(event)
        if isinstance(event, Failed):
            self.failed.append((job, event))
        if isinstance(event, (Finished, Failed)):
            self._attempts[run_id] = 0
        report(job, event, self._passes[run_id])

    def _given_back(self, event: Lost | Returned) -> Lost | Returned | Failed:
        """Let another attempt go on, unless too many workers were lost."""
        self._attempts[event.run_id] = 0
        if isinstance(event, Lost):
            self._losses[event.run_id] += 1
            if self._losses[event.run_id] == LOSSES:
                message = f"{event.message} ({LOSSES} workers lost in a row)"
                return Failed(event.run_id, event.attempt, "worker", message, None, "")
        self._waiting.appendleft(event.run_id)
        return event
