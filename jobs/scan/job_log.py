"""The log of a job: one line for each event of its attempts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from catalog.store.records import BatchRecord, NetworkRecord
from jobs.runners.events import Event, Failed, Finished, Halved, Lost, Skipped, Started
from survey import SettingsError, StoreError
from survey.text import counted, first_names, format_duration, printable


def log_path(folder: Path, run_id: str) -> Path:
    """Return the path of a job's log."""
    return folder / f"{run_id}.log"


def read_log(folder: Path, run_id: str) -> str:
    """Return a job's log.

    Raises
    ------
    SettingsError
        If there is none: no attempt at the job began.
    StoreError
        If it cannot be read.
    """
    if not log_path(folder, run_id).exists():
        raise SettingsError(
            f"there is no log of run {run_id}", hint="a log begins with a job's first attempt"
        )
    try:
        # A loss of power may have cut a character.
        return log_path(folder, run_id).read_text("utf-8", errors="replace").rstrip("\n")
    except OSError as error:
        raise StoreError(
            f"the log of run {run_id} cannot be read: {error.strerror}",
            hint=f"check the permissions of {folder}",
        ) from None


def append(folder: Path, run_id: str, text: str) -> None:
    """Add a line to a job's log, and what follows it. A log that cannot be written stops nothing.

    Parameters
    ----------
    folder : Path
        The folder of logs.
    run_id : str
        The job's run.
    text : str
        From ``described``: what follows its first line is set in, as no line of the log is.
    """
    first, *others = map(printable, text.split("\n"))
    lines = [f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}Z {first}", *(f"  {each}" for each in others)]
    stamped = "\n".join(lines) + "\n"
    try:
        path = log_path(folder, run_id)
        with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(stamped)
    except OSError:
        return


def described(event: Event) -> str:
    """Return the line of an event, and a failure's traceback below it."""
    attempt = f"attempt {event.attempt}"
    if isinstance(event, Started):
        host = event.host
        where = f"{host.hostname} process {host.pid} on {host.device_name}"
        started = f"{attempt}: started at {where}, {counted(host.threads, 'thread')}"
        others = first_names(event.dropped_keys)
        return started + (f"; left out of the file: {others}" if others else "")
    if isinstance(event, BatchRecord):
        batch = event.batch
        return (
            f"{attempt}: batch {batch.batch}, {counted(batch.images, 'image')} in"
            f" {format_duration(batch.seconds)}, micro-batch {event.micro_batch}"
        )
    if isinstance(event, NetworkRecord):
        named = (
            f"{name} (no value: {score.reason})" if score.reason else name
            for name, score in event.scores.items()
        )
        return f"{attempt}: measured {', '.join(named)}"
    if isinstance(event, Skipped):
        return f"{attempt}: skipped {event.name}: {event.reason}"
    if isinstance(event, Halved):
        where = f" in {event.measure}" if event.measure else ""
        return f"{attempt}: out of memory{where}, micro-batch {event.micro_batch}: {event.message}"
    if isinstance(event, Failed):
        return f"{attempt}: failed at {event.stage}: {event.message}\n{event.traceback}".rstrip()
    if isinstance(event, Lost):
        return f"{attempt}: lost: {event.message}"
    ended = "finished" if isinstance(event, Finished) else "returned before it began"
    return f"{attempt}: {ended}"
