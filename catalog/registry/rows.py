"""Rows of the registry, each with its columns.

``catalog.registry.tables`` makes the tables of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from catalog.registry.policies import Missed, Overlap, TokenScope
from catalog.tags import TagValue
from survey.column_fields import column, optional

#: What is to be done about a job: nothing more once it is ``done``, nothing by itself while it is
#: ``parked`` (it kept losing its workers) or ``cancelled``.
JobState = Literal["todo", "running", "done", "failed", "parked", "cancelled"]

#: How an attempt ended: measured; failed by itself; its worker died; the scan was stopped.
AttemptOutcome = Literal["done", "failed", "lost", "interrupted"]

#: Where a due time stands: to be run; running; then settled in one of four ways.
TickState = Literal["waiting", "running", "done", "failed", "skipped", "replaced"]

#: Where a submitted survey stands: to be run; running; then over in one of three ways.
SubmissionState = Literal["queued", "running", "done", "failed", "cancelled"]

#: What a notice is about: a survey came to its end, or failed; signatures moved; results were
#: stale.
EventKind = Literal["finished", "failed", "drift", "stale"]


@dataclass(frozen=True, slots=True)
class JobEntry:
    """A run that is to be done, as it is declared."""

    key: str = column("Hash of everything that determines the run's numbers.")
    run_id: str = column("The run in the signature store.")
    architecture: str = column("The network's name within its source.")
    source: str = column("Where the architecture comes from.")
    checkpoint: str = column("The weights as the user names them.")
    dataset: str = column("The dataset's full name.")
    settings: dict[str, Any] = column("The measuring settings, as JSON.", "JSON")


@dataclass(frozen=True, slots=True)
class JobRow(JobEntry):
    """A run that is to be done, and where it stands."""

    state: JobState = column("todo, running, done, failed, parked or cancelled.")
    losses: int = column("Workers lost in a row over it without a batch that became durable.")
    created_at: datetime = column("When it was first asked for.")
    updated_at: datetime = column("When its state last changed.")


class JobOverview(NamedTuple):
    """How a job stands, with its newest attempt."""

    key: str
    run_id: str
    source: str
    architecture: str
    checkpoint: str
    dataset: str
    state: JobState
    #: The newest attempt's number and what went wrong in it; None where there is none.
    attempt: int | None
    error: str | None


DECLARED_BY = "The survey file or schedule that declares it; NULL where it was given by hand."


@dataclass(frozen=True, slots=True)
class RunLabel:
    """What a user calls a run."""

    run_id: str = column("The run in the signature store.")
    model: str | None = optional("The label of its architecture.")
    checkpoint: str | None = optional("The label of its weights.")
    dataset: str | None = optional("The label of its dataset.")
    declared_by: str | None = optional(DECLARED_BY)


@dataclass(frozen=True, slots=True)
class RunTag:
    """What a user notes of a run."""

    run_id: str = column("The run in the signature store.")
    name: str = column("The tag's name.")
    value: TagValue = column("A number, a truth value or a text, as JSON.", "JSON")
    declared_by: str | None = optional(DECLARED_BY)


@dataclass(frozen=True, slots=True)
class AccessToken:
    """What lets a client of the service in; the secret itself is kept nowhere."""

    id: int = column("Its number.")
    name: str = column("What its owner calls it.")
    sha256: str = column("The sha256 of the secret, of 256 random bits.")
    scope: TokenScope = column("read, or write, which includes reading.")
    created_at: datetime = column("When it was made.")
    expires_at: datetime | None = column("From when on it lets nobody in; NULL for never.")
    revoked_at: datetime | None = column("When it was revoked; NULL while it was not.")


@dataclass(frozen=True, slots=True)
class SavedQuery:
    """A query that users of the service keep."""

    name: str = column("What it asks.")
    sql: str = column("The statement.")
    saved_at: datetime = column("When it was kept, or kept anew.")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a job; it has no end and no outcome while it goes on."""

    id: int = column("Its number.")
    job_key: str = column("The job attempted.")
    attempt: int = column("Which attempt at the job, counting from 1.")
    worker: str = column("The worker's name.")
    pid: int | None = column("The worker's process.")
    started_at: datetime = column("When it began.")
    ended_at: datetime | None = column("When it ended.")
    outcome: AttemptOutcome | None = column("done, failed, lost or interrupted.")
    stage: str | None = column("The stage it failed in.")
    error: str | None = column("What went wrong, in a sentence.")
    traceback: str | None = column("Where in the program it failed.")
    images_done: int | None = column("Images measured when it ended.", "BIGINT")


@dataclass(frozen=True, slots=True)
class ScheduleEntry:
    """A survey that is to be run again and again, as it is declared."""

    name: str = column("Its name.")
    definition: dict[str, Any] = column(
        "The survey as it was declared when the schedule was added, as JSON.", "JSON"
    )
    base: str = column("The folder that relative paths in it start from.")
    origin: str = column("The survey file it was read from.")
    cron: str = column("Its due times as five cron fields.")
    timezone: str = column("The time zone the fields are meant in.")
    missed: Missed = column("Which missed due times run: latest, all or skip.")
    overlap: Overlap = column(
        "What a due time does while a former run goes: skip, queue or replace."
    )


@dataclass(frozen=True, slots=True)
class Schedule(ScheduleEntry):
    """A survey that is run again and again, and where it stands."""

    id: int = column("Its number.")
    created_at: datetime = column("When it was added.")
    settled_at: datetime = column(
        "Up to which moment every due time has a row of its own in ticks."
    )
    paused_at: datetime | None = column("Since when it is paused; NULL while it is not.")


@dataclass(frozen=True, slots=True)
class Claimed:
    """What one process at a time takes and runs, and what became of it."""

    id: int = column("Its number.")
    reason: str | None = column("Why it waits, failed, was skipped or was replaced, in a sentence.")
    claim: int = column("How often a process took it; only the last to take it can settle it.")
    losses: int = column("How often the process that ran it vanished.")
    host: str | None = column("Host of the process that runs or ran it.")
    pid: int | None = column("That process.")
    process: str | None = column(
        "Its kernel and start time, which tell it from others of the same number."
    )
    lease_until: datetime | None = column("Until when other hosts take that process to be alive.")
    cancel_at: datetime | None = column("When its run was asked to stop; NULL if it was not.")
    started_at: datetime | None = column("When its run began.")
    ended_at: datetime | None = column("When it was settled.")
    measured: int | None = column("Jobs measured.")
    failed: int | None = column("Jobs that failed.")
    skipped: int | None = column("Jobs that were measured before.")
    seconds: float | None = column("Seconds from its start to its end.")


@dataclass(frozen=True, slots=True)
class Tick(Claimed):
    """A due time of a schedule, and what became of it."""

    schedule_id: int = column("The schedule.")
    due_at: datetime = column("When it was due.")
    state: TickState = column("waiting, running, done, failed, skipped or replaced.")
    claimed_at: datetime = column("When a process first saw it due.")


@dataclass(frozen=True, slots=True)
class Submission(Claimed):
    """A survey that was submitted to the service, and what became of it."""

    survey_id: int = column("The survey that it asks for.")
    state: SubmissionState = column("queued, running, done, failed or cancelled.")
    submitted_at: datetime = column("When it was submitted, or last retried.")


@dataclass(frozen=True, slots=True)
class EventEntry:
    """A notice of what happened, as it is recorded."""

    kind: EventKind = column("finished, failed, drift or stale.")
    cause: str = column("The run it is about; a kind of event is recorded once a run.")
    title: str = column("What happened, in a sentence.")
    detail: dict[str, Any] = column("Counts, or the rows that say what changed, as JSON.", "JSON")
    happened_at: datetime = column("When it was recorded.")


@dataclass(frozen=True, slots=True)
class EventRow(EventEntry):
    """A notice of what happened."""

    number: int = column("Its place among all events.")
    id: str = column("Its id, the same whenever it is sent.")


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event that is to be sent to a receiver, such as a webhook."""

    event_id: str = column("The event.")
    receiver: str = column("A hash of the receiver's address, which may hold a secret.")
    attempts: int = column("How often it was tried.")
    next_at: datetime | None = column("When it is tried next; NULL once it is over.")
    delivered_at: datetime | None = column("When the receiver accepted it.")
    error: str | None = column("What went wrong the last time.")
