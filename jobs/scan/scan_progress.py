"""How far a scan is: what a scan writes for those who watch it, and what follows from it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from pydantic import Field, TypeAdapter

from catalog.bounds import open_file, read_at_most
from catalog.files import whole_file

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Progress = TypeVar("_Progress")

End = Literal["done", "failed", "interrupted", "error"]

Count = Annotated[int, Field(ge=0, lt=2**63)]
Moment = Annotated[float, Field(ge=0.0, lt=1e11)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]

#: Bytes of the largest file that is read: a thousand workers take some hundred each.
_MOST_BYTES = 2**22


@dataclass(frozen=True, slots=True)
class WorkerProgress:
    """A worker and the job that it measures."""

    #: Its machine, its process there, and its device's own name.
    hostname: str
    pid: Count
    device_name: str
    #: The run that it measures, None between two jobs; and what the job is.
    run_id: str | None = None
    title: str = ""
    #: Images of that job that are durable, and all of them.
    images: Count = 0
    total_images: Count = 0
    #: Those of them that this worker measured since it began.
    own_images: Count = 0
    #: The measure of the whole network that it computes before them and how far that is, as
    #: ``nonlinearity_coefficient 40%``; empty where it computes none.
    measure: str = ""


@dataclass(frozen=True, slots=True)
class JobFailure:
    """A job that failed."""

    run_id: str
    title: str
    #: The stage it failed in, and why.
    stage: str
    message: str


@dataclass(frozen=True, slots=True)
class ScanProgress:
    """How far a scan is. Times are seconds since 1970."""

    #: The process that scans, as ``123 on host``.
    process: str
    began_at: Moment
    #: Jobs that the scan has to measure, and those that it skips.
    jobs: Count
    measured_before: Count
    #: Jobs measured and jobs failed since it began, and the last of these failures.
    done: Count = 0
    failed: Count = 0
    failures: tuple[JobFailure, ...] = ()
    #: Images measured since it began, and those that it had to measure.
    images: Count = 0
    total_images: Count = 0
    #: The part of its work that is done, by the expected time of each job.
    fraction: Fraction = 0.0
    #: When the first worker began to measure.
    measuring_since: Moment | None = None
    #: Images measured lately, and since when.
    recent_images: Count = 0
    recent_since: Moment | None = None
    #: The number of workers, their device, the threads of each; and those that have begun.
    workers: Count = 0
    device: str = ""
    threads: Count = 0
    working: tuple[WorkerProgress, ...] = ()
    #: When the scan ended, and how: everything was measured, some jobs failed or lack a file, it
    #: was interrupted, or an error ended it, with the error's exit code.
    ended_at: Moment | None = None
    end: End | None = None
    error: str | None = None
    error_code: Count | None = None

    def images_per_second(self, now: float) -> float | None:
        """Return how many images a second were measured lately; None before the first batch."""
        now = now if self.ended_at is None else self.ended_at
        if not self.recent_images or self.recent_since is None or now <= self.recent_since:
            return None
        return self.recent_images / (now - self.recent_since)

    def seconds_left(self, now: float) -> float | None:
        """Return about how long the scan will take from now on; None before the first batch."""
        if self.ended_at is not None or self.measuring_since is None or not self.fraction:
            return None
        # Between two batches the time that is left passes.
        return max(0.0, (now - self.measuring_since) * (1 / self.fraction - 1))


def as_json(progress: DataclassInstance) -> str:
    """Return progress as one line."""
    # The name of a file may be no text, and then no JSON that every reader takes.
    return json.dumps(asdict(progress), ensure_ascii=False).encode(errors="replace").decode()


def write_progress(path: Path, progress: DataclassInstance) -> None:
    """Write progress into a file that appears whole under its name.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    with whole_file(path) as partial:
        partial.write_text(as_json(progress), encoding="utf-8")


def read_progress(path: Path) -> ScanProgress | None:
    """Return what the last scan wrote into its file; see ``read_written``."""
    return read_written(path, ScanProgress)


def read_written(path: Path, kind: type[_Progress]) -> _Progress | None:
    """Return what ``write_progress`` wrote into a file; None if there is none that can be read.

    Raises
    ------
    OSError
        If the file cannot be opened, other than by its absence.
    """
    try:
        with open_file(path) as file:
            content = read_at_most(file, _MOST_BYTES, str(path))
        return TypeAdapter(kind).validate_json(content)
    # Of another version of this program, or torn by a loss of power.
    except (FileNotFoundError, ValueError):
        return None
