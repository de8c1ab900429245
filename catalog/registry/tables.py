"""The registry's tables: what changes while surveys are declared and run.

Those whose rows ``catalog.registry.rows`` declares are made of them, the others declared here. The
numbered files below ``migrations`` are their history; applying them all gives exactly these.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.schema import SchemaItem

from catalog.registry.columns import UtcDateTime, column, row_columns
from catalog.registry.rows import (
    AccessToken,
    Attempt,
    Delivery,
    EventRow,
    JobRow,
    RunLabel,
    RunTag,
    SavedQuery,
    Schedule,
    Submission,
    Tick,
)

METADATA = MetaData()


def _table_of(
    row: type, name: str, sentence: str, /, *constraints: SchemaItem, **options: dict[str, bool]
) -> Table:
    """Return the table whose columns a dataclass declares, with further options by name."""
    return Table(name, METADATA, *row_columns(row, options), *constraints, comment=sentence)


#: Made by the first migration and not read any more.
Table(
    "checkpoints",
    METADATA,
    column("uri", Text, "The checkpoint as file:PATH.", primary_key=True),
    column("path", Text, "The file's absolute path."),
    column("bytes", BigInteger, "The file's size when it was hashed."),
    column(
        "mtime_ns", BigInteger, "The file's modification time when it was hashed, in nanoseconds."
    ),
    column("sha256", Text, "The sha256 of the file's bytes."),
    comment="Not read any more: what shows a change of weights is in `datasets`, as for images.",
)

#: Datasets and files of weights whose hash is known.
DATASETS = Table(
    "datasets",
    METADATA,
    column(
        "name",
        Text,
        "The dataset's full name, file:PATH of weights, or fit:SHA256 NETWORK.",
        primary_key=True,
    ),
    column(
        "stat_signature",
        Text,
        "Hash over its files' names, sizes, last changes and inodes when it was read; of a fit, the"
        " version of what defines the network.",
    ),
    column(
        "fingerprint",
        Text,
        "The sha256 of a file of weights, or over every image's bytes, name, label and the order;"
        " of a fit, why the file cannot be loaded into the network, empty where it can.",
    ),
    column("images", BigInteger, "How many images it has; NULL of weights.", nullable=True),
    comment="One row a dataset or file of weights, so that none is read twice to know it.",
)

#: Declared sets of jobs.
SURVEYS = Table(
    "surveys",
    METADATA,
    column("id", Integer, "Its number.", primary_key=True),
    column("name", Text, "Its name: the survey file's, or the command's."),
    column("declared_at", UtcDateTime, "When it was first declared."),
    column("definition", JSON, "Models, checkpoints, datasets and settings as declared, as JSON."),
    comment="One row a declared set of jobs.",
)

#: Runs that are to be done, and what became of them.
JOBS = _table_of(
    JobRow,
    "jobs",
    "One row a run that is to be done.",
    key={"primary_key": True},
    run_id={"unique": True},
    state={"index": True},
)

#: Which survey asked for which job.
SURVEY_JOBS = Table(
    "survey_jobs",
    METADATA,
    column("survey_id", Integer, "The survey.", ForeignKey("surveys.id"), primary_key=True),
    column(
        "job_key",
        Text,
        "The job it asks for.",
        ForeignKey("jobs.key"),
        primary_key=True,
        index=True,
    ),
    comment="One row a survey and a job that it asks for: many surveys may share a job.",
)

#: Labels of runs. No key points to the jobs: those of a damaged registry are made anew later.
RUN_LABELS = _table_of(
    RunLabel,
    "run_labels",
    "One row a run that a user gave a label, for tables and figures; no number depends on it.",
    run_id={"primary_key": True},
)

#: Tags of runs.
RUN_TAGS = _table_of(
    RunTag,
    "run_tags",
    "One row a run and tag that a user gave it; no number depends on it.",
    run_id={"primary_key": True},
    name={"primary_key": True},
)

#: Attempts at jobs.
ATTEMPTS = _table_of(
    Attempt,
    "attempts",
    "One row an attempt at a job.",
    ForeignKeyConstraint(["job_key"], ["jobs.key"]),
    UniqueConstraint("job_key", "attempt", name="one_row_an_attempt"),
    id={"primary_key": True},
    job_key={"index": True},
)

#: What fits into a device's memory.
MEMORY = Table(
    "memory",
    METADATA,
    column(
        "architecture",
        Text,
        "The network with its source, such as timm:resnet50.",
        primary_key=True,
    ),
    column("device_name", Text, "The device's own name.", primary_key=True),
    column(
        "size",
        Integer,
        "Height and width of the images, in pixels.",
        primary_key=True,
        autoincrement=False,
    ),
    column("micro_batch", Integer, "Images in one forward pass that fitted."),
    column("recorded_at", UtcDateTime, "When that was found."),
    comment="One row a network, device and image size that ran out of memory once.",
)

#: Surveys that are run again and again.
SCHEDULES = _table_of(
    Schedule,
    "schedules",
    "One row a survey that is run again and again.",
    id={"primary_key": True},
    name={"unique": True},
)

#: Due times of schedules, and what became of them.
TICKS = _table_of(
    Tick,
    "ticks",
    "One row a due time of a schedule.",
    ForeignKeyConstraint(["schedule_id"], ["schedules.id"]),
    UniqueConstraint("schedule_id", "due_at", name="one_row_a_due_time"),
    # In PostgreSQL too, by the migration; to say so here costs every verb that dialect's import.
    Index(
        "one_running_a_schedule", "schedule_id", unique=True, sqlite_where=text("state = 'running'")
    ),
    id={"primary_key": True},
    state={"index": True},
)

#: What lets clients of the service in.
TOKENS = _table_of(
    AccessToken,
    "tokens",
    "One row a token that lets a client of the service in.",
    id={"primary_key": True},
    name={"unique": True},
    sha256={"unique": True},
)

#: Queries that users of the service keep.
SAVED_QUERIES = _table_of(
    SavedQuery,
    "saved_queries",
    "One row a query that users of the service keep.",
    name={"primary_key": True},
)

#: Surveys that were submitted to the service.
SUBMISSIONS = _table_of(
    Submission,
    "submissions",
    "One row a survey that was submitted to the service.",
    ForeignKeyConstraint(["survey_id"], ["surveys.id"]),
    id={"primary_key": True},
    state={"index": True},
)

#: Notices of what happened. No key points to what they are about: a schedule may be removed.
EVENTS = _table_of(
    EventRow,
    "events",
    "One row a notice of what happened.",
    UniqueConstraint("kind", "cause", name="one_event_a_kind_and_cause"),
    number={"primary_key": True},
    id={"unique": True},
)

#: Those that events are sent to.
RECEIVERS = Table(
    "receivers",
    METADATA,
    column("key", Text, "A hash of its address, which may hold a secret.", primary_key=True),
    column("after", Integer, "The last event before it was first named; it gets the later ones."),
    comment="One row a webhook or command that events are sent to.",
)

#: Events on their way to those.
DELIVERIES = _table_of(
    Delivery,
    "deliveries",
    "One row an event and a receiver.",
    ForeignKeyConstraint(["event_id"], ["events.id"]),
    ForeignKeyConstraint(["receiver"], ["receivers.key"]),
    event_id={"primary_key": True},
    receiver={"primary_key": True},
)
