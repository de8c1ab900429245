"""Tasks: one attempt of one worker at one shard of a job, or at a training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from jobs.planning.job import Job
from jobs.planning.linearisation import LinearisationJob
from survey.stopping import Spread

if TYPE_CHECKING:
    from survey.linearising.results import TrainingState


class AnyTask(Protocol):
    """What a runner knows of a task, whatever ``jobs.runners.worker.run_task`` does with it."""

    @property
    def run_id(self) -> str:
        """The run it belongs to."""

    @property
    def attempt(self) -> int:
        """Number of the attempt at the job, counting from 1."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Consecutive batches of a job. Shards meet between batch scores, so that none changes."""

    #: The first batch.
    first: int = 0
    #: One past the last batch; None for all that remain.
    stop: int | None = None
    #: Place of the first image in the dataset's order; None where a worker has to count, because
    #: images before it may be broken.
    position: int | None = 0


@dataclass(frozen=True, slots=True)
class Task:
    """One attempt at one shard of a job."""

    job: Job
    #: Number of the attempt at the job, counting from 1. Events of earlier attempts are ignored.
    attempt: int
    shard: Shard = Shard()
    #: Images in one forward pass, fewer than the settings' where those did not fit; 0 for theirs.
    micro_batch: int = 0
    #: Seconds it may take; None without a deadline.
    deadline: float | None = None
    #: The scores of the batches before the shard; a precision is reached on top of them.
    spread: Spread = field(default_factory=Spread)
    #: Measures of the whole network that are to be computed first.
    measures: tuple[str, ...] = ()
    #: Images in one forward pass of these: 0 for as many as elsewhere, fewer after a loss in them.
    measure_micro_batch: int = 0

    @property
    def run_id(self) -> str:
        """The run it belongs to."""
        return self.job.run_id


@dataclass(frozen=True, slots=True)
class TrainingTask:
    """One attempt at a linearisation with training."""

    job: LinearisationJob
    #: As for ``Task``.
    attempt: int
    #: The state after the last pass that is kept; None to begin.
    state: TrainingState | None = None

    @property
    def run_id(self) -> str:
        """The run it belongs to."""
        return self.job.run_id
