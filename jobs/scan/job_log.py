"""A log a job: what was tried, where, and what came of it, a line each."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from jobs.runners.events import BatchDone, Event, Failed, Finished, Halved, Lost, Started
from survey import StoreError
from survey.text import counted, format_duration


def log_path(folder: Path, run_id: str) -> Path:
    """Return where a job's log lies."""
    return folder / f"{run_id}.log"


def read_log(folder: Path, run_id: str) -> str:
    """Return a job's log.

    Raises
    ------
    StoreError
        If there is none: the job was never begun.
    """
    try:
        return log_path(folder, run_id).read_text(encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"there is no log of run {run_id}: {error.strerror}",
            hint="a log begins with a job's first attempt",
        ) from None


def append(folder: Path, run_id: str, line: str) -> None:
    """Add a line to a job's log. A log that cannot be written stops nothing."""
    stamped = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}Z {line}\n"
    try:
        path = log_path(folder, run_id)
        with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(stamped)
    except OSError:
        return


def described(event: Event) -> str:
    """Return an event as a line of a log; a failure brings its traceback."""
    speaker = f"attempt {event.attempt}"
    if isinstance(event, Started):
        host = event.host
        where = f"{host.hostname} process {host.pid} on {host.device_name}"
        return f"{speaker}: started at {where}, {counted(host.threads, 'thread')}"
    if isinstance(event, BatchDone):
        batch = event.batch
        skipped = "".join(f"; skipped {image.name}: {image.reason}" for image in event.skipped)
        return (
            f"{speaker}: batch {batch.batch}, {counted(batch.images, 'image')} in"
            f" {format_duration(batch.seconds)}, micro-batch {event.micro_batch}{skipped}"
        )
    if isinstance(event, Halved):
        return f"{speaker}: out of memory, micro-batch {event.micro_batch}: {event.message}"
    if isinstance(event, Finished):
        return f"{speaker}: finished"
    if isinstance(event, Failed):
        return f"{speaker}: failed at {event.stage}: {event.message}\n{event.traceback}".rstrip()
    if isinstance(event, Lost):
        return f"{speaker}: lost: {event.message}"
    return f"{speaker}: given back before it began"
