"""The registry's tables: what changes while surveys are declared and run.

Every table and column carries a sentence. The numbered files below ``migrations/registry`` are
their history; applying them all gives exactly what is declared here.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.types import TypeDecorator


class UtcDateTime(TypeDecorator[datetime]):
    """A moment in UTC, also where the database keeps no zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Store UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Give the zone back that SQLite drops."""
        if value is None or value.tzinfo is not None:
            return value
        return value.replace(tzinfo=UTC)


METADATA = MetaData()

#: Files of weights whose hash is known.
CHECKPOINTS = Table(
    "checkpoints",
    METADATA,
    Column("uri", Text, primary_key=True, comment="The checkpoint as file:PATH."),
    Column("path", Text, nullable=False, comment="The file's absolute path."),
    Column("bytes", BigInteger, nullable=False, comment="The file's size when it was hashed."),
    Column(
        "mtime_ns",
        BigInteger,
        nullable=False,
        comment="The file's modification time when it was hashed, in nanoseconds.",
    ),
    Column("sha256", Text, nullable=False, comment="The sha256 of the file's bytes."),
    comment="One row a file of weights, so that none is hashed twice.",
)

#: Datasets whose fingerprint is known.
DATASETS = Table(
    "datasets",
    METADATA,
    Column("name", Text, primary_key=True, comment="The dataset's full name."),
    Column(
        "stat_signature",
        Text,
        nullable=False,
        comment="Hash over its files' names, sizes and times when it was read.",
    ),
    Column(
        "fingerprint",
        Text,
        nullable=False,
        comment="The sha256 over every image's bytes, name, label and the order.",
    ),
    Column("images", BigInteger, nullable=True, comment="How many images it has."),
    comment="One row a dataset, so that none is read twice to know it.",
)

#: Declared sets of jobs.
SURVEYS = Table(
    "surveys",
    METADATA,
    Column("id", Integer, primary_key=True, comment="Its number."),
    Column("name", Text, nullable=False, comment="Its name: the survey file's, or the command's."),
    Column("declared_at", UtcDateTime, nullable=False, comment="When it was first declared."),
    Column(
        "definition",
        JSON,
        nullable=False,
        comment="Models, checkpoints, datasets and settings as declared, as JSON.",
    ),
    comment="One row a declared set of jobs.",
)

#: Runs that are to be done, and what became of them.
JOBS = Table(
    "jobs",
    METADATA,
    Column(
        "key",
        Text,
        primary_key=True,
        comment="Hash of everything that determines the run's numbers.",
    ),
    Column("run_id", Text, unique=True, nullable=False, comment="The run in the signature store."),
    Column("architecture", Text, nullable=False, comment="The network's name within its source."),
    Column("source", Text, nullable=False, comment="Where the architecture comes from."),
    Column("checkpoint", Text, nullable=False, comment="The weights as the user names them."),
    Column("dataset", Text, nullable=False, comment="The dataset's full name."),
    Column("settings", JSON, nullable=False, comment="The measuring settings, as JSON."),
    Column(
        "state",
        Text,
        index=True,
        nullable=False,
        comment="todo, running, done, failed, parked or cancelled.",
    ),
    Column(
        "losses",
        Integer,
        nullable=False,
        comment="Workers lost in a row over it without a batch that became durable.",
    ),
    Column("created_at", UtcDateTime, nullable=False, comment="When it was first asked for."),
    Column("updated_at", UtcDateTime, nullable=False, comment="When its state last changed."),
    comment="One row a run that is to be done.",
)

#: Which survey asked for which job.
SURVEY_JOBS = Table(
    "survey_jobs",
    METADATA,
    Column("survey_id", Integer, ForeignKey("surveys.id"), primary_key=True, comment="The survey."),
    Column(
        "job_key",
        Text,
        ForeignKey("jobs.key"),
        primary_key=True,
        index=True,
        comment="The job it asks for.",
    ),
    comment="One row a survey and a job that it asks for: many surveys may share a job.",
)

#: Attempts at jobs.
ATTEMPTS = Table(
    "attempts",
    METADATA,
    Column("id", Integer, primary_key=True, comment="Its number."),
    Column(
        "job_key",
        Text,
        ForeignKey("jobs.key"),
        index=True,
        nullable=False,
        comment="The job attempted.",
    ),
    Column(
        "attempt", Integer, nullable=False, comment="Which attempt at the job, counting from 1."
    ),
    Column("worker", Text, nullable=False, comment="The worker's name."),
    Column("pid", Integer, nullable=True, comment="The worker's process."),
    Column("started_at", UtcDateTime, nullable=False, comment="When it began."),
    Column("ended_at", UtcDateTime, nullable=True, comment="When it ended."),
    Column("outcome", Text, nullable=True, comment="done, failed, lost or interrupted."),
    Column("stage", Text, nullable=True, comment="The stage it failed in."),
    Column("error", Text, nullable=True, comment="What went wrong, in a sentence."),
    Column("traceback", Text, nullable=True, comment="Where in the program it failed."),
    Column("images_done", BigInteger, nullable=True, comment="Images measured when it ended."),
    UniqueConstraint("job_key", "attempt", name="one_row_an_attempt"),
    comment="One row an attempt at a job.",
)

#: What fits into a device's memory.
MEMORY = Table(
    "memory",
    METADATA,
    Column(
        "architecture",
        Text,
        primary_key=True,
        comment="The network with its source, such as timm:resnet50.",
    ),
    Column("device_name", Text, primary_key=True, comment="The device's own name."),
    Column(
        "size",
        Integer,
        primary_key=True,
        autoincrement=False,
        comment="Height and width of the images, in pixels.",
    ),
    Column(
        "micro_batch", Integer, nullable=False, comment="Images in one forward pass that fitted."
    ),
    Column("recorded_at", UtcDateTime, nullable=False, comment="When that was found."),
    comment="One row a network, device and image size that ran out of memory once.",
)

#: Surveys that are run again and again.
SCHEDULES = Table(
    "schedules",
    METADATA,
    Column("id", Integer, primary_key=True, comment="Its number."),
    Column("name", Text, unique=True, nullable=False, comment="Its name."),
    Column(
        "definition",
        JSON,
        nullable=False,
        comment="The survey as it was declared when the schedule was added, as JSON.",
    ),
    Column(
        "base", Text, nullable=False, comment="The folder that relative paths in it start from."
    ),
    Column("origin", Text, nullable=False, comment="The survey file it was read from."),
    Column("cron", Text, nullable=False, comment="Its due times as five cron fields."),
    Column("timezone", Text, nullable=False, comment="The time zone the fields are meant in."),
    Column(
        "missed", Text, nullable=False, comment="Which missed due times run: latest, all or skip."
    ),
    Column(
        "overlap",
        Text,
        nullable=False,
        comment="What a due time does while a former run goes: skip, queue or replace.",
    ),
    Column("created_at", UtcDateTime, nullable=False, comment="When it was added."),
    Column(
        "settled_at",
        UtcDateTime,
        nullable=False,
        comment="Up to which moment every due time has a row of its own in ticks.",
    ),
    Column(
        "paused_at",
        UtcDateTime,
        nullable=True,
        comment="Since when it is paused; NULL while it is not.",
    ),
    comment="One row a survey that is run again and again.",
)

#: Due times of schedules, and what became of them.
TICKS = Table(
    "ticks",
    METADATA,
    Column("id", Integer, primary_key=True, comment="Its number."),
    Column(
        "schedule_id", Integer, ForeignKey("schedules.id"), nullable=False, comment="The schedule."
    ),
    Column("due_at", UtcDateTime, nullable=False, comment="When it was due."),
    Column(
        "state",
        Text,
        index=True,
        nullable=False,
        comment="waiting, running, done, failed, skipped or replaced.",
    ),
    Column(
        "reason",
        Text,
        nullable=True,
        comment="Why it waits, failed, was skipped or was replaced, in a sentence.",
    ),
    Column("claimed_at", UtcDateTime, nullable=False, comment="When a process first saw it due."),
    Column(
        "claim",
        Integer,
        nullable=False,
        comment="How often a process took it; only the last to take it can settle it.",
    ),
    Column(
        "losses", Integer, nullable=False, comment="How often the process that ran it vanished."
    ),
    Column("host", Text, nullable=True, comment="Host of the process that runs or ran it."),
    Column("pid", Integer, nullable=True, comment="That process."),
    Column(
        "process",
        Text,
        nullable=True,
        comment="Its kernel and start time, which tell it from others of the same number.",
    ),
    Column(
        "lease_until",
        UtcDateTime,
        nullable=True,
        comment="Until when other hosts take that process to be alive.",
    ),
    Column(
        "cancel_at",
        UtcDateTime,
        nullable=True,
        comment="When its run was asked to stop; NULL if it was not.",
    ),
    Column("started_at", UtcDateTime, nullable=True, comment="When its run began."),
    Column("ended_at", UtcDateTime, nullable=True, comment="When it was settled."),
    Column("measured", Integer, nullable=True, comment="Jobs measured."),
    Column("failed", Integer, nullable=True, comment="Jobs that failed."),
    Column("skipped", Integer, nullable=True, comment="Jobs that were measured before."),
    Column("seconds", Double, nullable=True, comment="Seconds from its start to its end."),
    UniqueConstraint("schedule_id", "due_at", name="one_row_a_due_time"),
    # In PostgreSQL too, by the migration; to say so here costs every verb that dialect's import.
    Index(
        "one_running_a_schedule",
        "schedule_id",
        unique=True,
        sqlite_where=text("state = 'running'"),
    ),
    comment="One row a due time of a schedule.",
)
