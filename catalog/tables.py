"""The registry's tables: what changes while surveys are declared and run.

Every table and column carries a sentence. The numbered files below ``migrations/registry`` are
their history; applying them all gives exactly what is declared here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
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


class Base(DeclarativeBase):
    """What the registry's tables have in common."""

    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy reads it from the class
        str: Text(),
        datetime: UtcDateTime(),
        dict[str, Any]: JSON(),
    }


class CheckpointTable(Base):
    """Files of weights whose hash is known."""

    __tablename__ = "checkpoints"
    __table_args__ = {"comment": "One row a file of weights, so that none is hashed twice."}  # noqa: RUF012

    uri: Mapped[str] = mapped_column(primary_key=True, comment="The checkpoint as file:PATH.")
    path: Mapped[str] = mapped_column(comment="The file's absolute path.")
    bytes: Mapped[int] = mapped_column(BigInteger, comment="The file's size when it was hashed.")
    mtime_ns: Mapped[int] = mapped_column(
        BigInteger, comment="The file's modification time when it was hashed, in nanoseconds."
    )
    sha256: Mapped[str] = mapped_column(comment="The sha256 of the file's bytes.")


class DatasetTable(Base):
    """Datasets whose fingerprint is known."""

    __tablename__ = "datasets"
    __table_args__ = {"comment": "One row a dataset, so that none is read twice to know it."}  # noqa: RUF012

    name: Mapped[str] = mapped_column(primary_key=True, comment="The dataset's full name.")
    stat_signature: Mapped[str] = mapped_column(
        comment="Hash over its files' names, sizes and times when it was read."
    )
    fingerprint: Mapped[str] = mapped_column(
        comment="The sha256 over every image's bytes, name, label and the order."
    )
    images: Mapped[int | None] = mapped_column(BigInteger, comment="How many images it has.")


class SurveyTable(Base):
    """Declared sets of jobs."""

    __tablename__ = "surveys"
    __table_args__ = {"comment": "One row a declared set of jobs."}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True, comment="Its number.")
    name: Mapped[str] = mapped_column(comment="Its name: the survey file's, or the command's.")
    declared_at: Mapped[datetime] = mapped_column(comment="When it was first declared.")
    definition: Mapped[dict[str, Any]] = mapped_column(
        comment="Models, checkpoints, datasets and settings as declared, as JSON."
    )


class JobTable(Base):
    """Runs that are to be done, and what became of them."""

    __tablename__ = "jobs"
    __table_args__ = {"comment": "One row a run that is to be done."}  # noqa: RUF012

    key: Mapped[str] = mapped_column(
        primary_key=True, comment="Hash of everything that determines the run's numbers."
    )
    run_id: Mapped[str] = mapped_column(unique=True, comment="The run in the signature store.")
    architecture: Mapped[str] = mapped_column(comment="The network's name within its source.")
    source: Mapped[str] = mapped_column(comment="Where the architecture comes from.")
    checkpoint: Mapped[str] = mapped_column(comment="The weights as the user names them.")
    dataset: Mapped[str] = mapped_column(comment="The dataset's full name.")
    settings: Mapped[dict[str, Any]] = mapped_column(comment="The measuring settings, as JSON.")
    state: Mapped[str] = mapped_column(
        index=True, comment="todo, running, done, failed, parked or cancelled."
    )
    losses: Mapped[int] = mapped_column(
        comment="Workers lost in a row over it without a batch that became durable."
    )
    created_at: Mapped[datetime] = mapped_column(comment="When it was first asked for.")
    updated_at: Mapped[datetime] = mapped_column(comment="When its state last changed.")


class SurveyJobTable(Base):
    """Which survey asked for which job."""

    __tablename__ = "survey_jobs"
    __table_args__ = {  # noqa: RUF012
        "comment": "One row a survey and a job that it asks for: many surveys may share a job."
    }

    survey_id: Mapped[int] = mapped_column(
        ForeignKey("surveys.id"), primary_key=True, comment="The survey."
    )
    job_key: Mapped[str] = mapped_column(
        ForeignKey("jobs.key"), primary_key=True, index=True, comment="The job it asks for."
    )


class AttemptTable(Base):
    """Attempts at jobs."""

    __tablename__ = "attempts"
    __table_args__ = (
        UniqueConstraint("job_key", "attempt", name="one_row_an_attempt"),
        {"comment": "One row an attempt at a job."},
    )

    id: Mapped[int] = mapped_column(primary_key=True, comment="Its number.")
    job_key: Mapped[str] = mapped_column(
        ForeignKey("jobs.key"), index=True, comment="The job attempted."
    )
    attempt: Mapped[int] = mapped_column(comment="Which attempt at the job, counting from 1.")
    worker: Mapped[str] = mapped_column(comment="The worker's name.")
    pid: Mapped[int | None] = mapped_column(comment="The worker's process.")
    started_at: Mapped[datetime] = mapped_column(comment="When it began.")
    ended_at: Mapped[datetime | None] = mapped_column(comment="When it ended.")
    outcome: Mapped[str | None] = mapped_column(comment="done, failed, lost or interrupted.")
    stage: Mapped[str | None] = mapped_column(comment="The stage it failed in.")
    error: Mapped[str | None] = mapped_column(comment="What went wrong, in a sentence.")
    traceback: Mapped[str | None] = mapped_column(comment="Where in the program it failed.")
    images_done: Mapped[int | None] = mapped_column(
        BigInteger, comment="Images measured when it ended."
    )


class MemoryTable(Base):
    """What fits into a device's memory."""

    __tablename__ = "memory"
    __table_args__ = {  # noqa: RUF012
        "comment": "One row a network, device and image size that ran out of memory once."
    }

    architecture: Mapped[str] = mapped_column(
        primary_key=True, comment="The network with its source, such as timm:resnet50."
    )
    device_name: Mapped[str] = mapped_column(primary_key=True, comment="The device's own name.")
    size: Mapped[int] = mapped_column(
        primary_key=True, autoincrement=False, comment="Height and width of the images, in pixels."
    )
    micro_batch: Mapped[int] = mapped_column(comment="Images in one forward pass that fitted.")
    recorded_at: Mapped[datetime] = mapped_column(comment="When that was found.")


class ScheduleTable(Base):
    """Surveys that are run again and again."""

    __tablename__ = "schedules"
    __table_args__ = {"comment": "One row a survey that is run again and again."}  # noqa: RUF012

    id: Mapped[int] = mapped_column(primary_key=True, comment="Its number.")
    name: Mapped[str] = mapped_column(unique=True, comment="Its name.")
    definition: Mapped[dict[str, Any]] = mapped_column(
        comment="The survey as it was declared when the schedule was added, as JSON."
    )
    base: Mapped[str] = mapped_column(comment="The folder that relative paths in it start from.")
    origin: Mapped[str] = mapped_column(comment="The survey file it was read from.")
    cron: Mapped[str] = mapped_column(comment="Its due times as five cron fields.")
    timezone: Mapped[str] = mapped_column(comment="The time zone the fields are meant in.")
    missed: Mapped[str] = mapped_column(comment="Which missed due times run: latest, all or skip.")
    overlap: Mapped[str] = mapped_column(
        comment="What a due time does while a former run goes: skip, queue or replace."
    )
    created_at: Mapped[datetime] = mapped_column(comment="When it was added.")
    settled_at: Mapped[datetime] = mapped_column(
        comment="Up to which moment every due time has a row of its own in ticks."
    )
    paused_at: Mapped[datetime | None] = mapped_column(
        comment="Since when it is paused; NULL while it is not."
    )


class TickTable(Base):
    """Due times of schedules, and what became of them."""

    __tablename__ = "ticks"
    __table_args__ = (
        UniqueConstraint("schedule_id", "due_at", name="one_row_a_due_time"),
        # The database itself keeps two processes from running two ticks of a schedule at once.
        Index(
            "one_running_a_schedule",
            "schedule_id",
            unique=True,
            sqlite_where=text("state = 'running'"),
            postgresql_where=text("state = 'running'"),
        ),
        {"comment": "One row a due time of a schedule."},
    )

    id: Mapped[int] = mapped_column(primary_key=True, comment="Its number.")
    schedule_id: Mapped[int] = mapped_column(ForeignKey("schedules.id"), comment="The schedule.")
    due_at: Mapped[datetime] = mapped_column(comment="When it was due.")
    state: Mapped[str] = mapped_column(
        index=True, comment="waiting, running, done, failed, skipped or replaced."
    )
    reason: Mapped[str | None] = mapped_column(
        comment="Why it waits, failed, was skipped or was replaced, in a sentence."
    )
    claimed_at: Mapped[datetime] = mapped_column(comment="When a process first saw it due.")
    claim: Mapped[int] = mapped_column(
        comment="How often a process took it; only the last to take it can settle it."
    )
    losses: Mapped[int] = mapped_column(comment="How often the process that ran it vanished.")
    host: Mapped[str | None] = mapped_column(comment="Host of the process that runs or ran it.")
    pid: Mapped[int | None] = mapped_column(comment="That process.")
    process: Mapped[str | None] = mapped_column(
        comment="Its kernel and start time, which tell it from others of the same number."
    )
    lease_until: Mapped[datetime | None] = mapped_column(
        comment="Until when other hosts take that process to be alive."
    )
    cancel_at: Mapped[datetime | None] = mapped_column(
        comment="When its run was asked to stop; NULL if it was not."
    )
    started_at: Mapped[datetime | None] = mapped_column(comment="When its run began.")
    ended_at: Mapped[datetime | None] = mapped_column(comment="When it was settled.")
    measured: Mapped[int | None] = mapped_column(comment="Jobs measured.")
    failed: Mapped[int | None] = mapped_column(comment="Jobs that failed.")
    skipped: Mapped[int | None] = mapped_column(comment="Jobs that were measured before.")
    seconds: Mapped[float | None] = mapped_column(comment="Seconds from its start to its end.")
