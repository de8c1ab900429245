"""A task: what one worker does of one job in one attempt."""

from __future__ import annotations

from dataclasses import dataclass, field

from jobs.planning.job import Job
from survey.stopping import Spread


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a job's batches. Parts meet between batch scores, so that none changes."""

    #: Its first batch.
    first: int = 0
    #: The batch after its last; None where it ends with the images.
    stop: int | None = None
    #: Place of its first image in the dataset's order; None where a worker has to count, because
    #: images before it may be broken.
    position: int | None = 0


@dataclass(frozen=True, slots=True)
class Task:
    """One attempt at one part of a job."""

    job: Job
    #: Which attempt at the job, counting from 1. It fences: what an earlier one still says is not
    #: heard any more.
    attempt: int
    part: Part = Part()
    #: Images in one forward pass: the settings', or fewer where those did not fit.
    micro_batch: int = 0
    #: Seconds it may take; None for as long as it needs.
    deadline: float | None = None
    #: What the batches before the part gave; a precision is reached on top of them.
    spread: Spread = field(default_factory=Spread)

    @property
    def run_id(self) -> str:
        """The run it works for."""
        return self.job.run_id
