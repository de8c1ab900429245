"""Jobs: the runs that are to be done, and the statement that moves them by hand."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, update

from catalog.registry.attempts import JobState
from catalog.registry.database import portions, rowcount
from catalog.registry.tables import JOBS


@dataclass(frozen=True, slots=True)
class JobEntry:
    """A run that is to be done, as it is declared."""

    #: Hash of everything that determines the run's numbers.
    key: str
    #: The run in the signature store.
    run_id: str
    #: The network's name within its source.
    architecture: str
    #: Where the architecture comes from.
    source: str
    #: The weights as the user names them.
    checkpoint: str
    #: The dataset's full name.
    dataset: str
    #: The measuring settings as plain values.
    settings: dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobRow(JobEntry):
    """A run that is to be done, and where it stands."""

    #: What is to be done about it.
    state: JobState
    #: Workers lost in a row over it without a batch that became durable.
    losses: int
    #: When it was first asked for.
    created_at: datetime
    #: When its state last changed.
    updated_at: datetime


class JobOverview(NamedTuple):
    """How a job stands, with its newest attempt."""

    run_id: str
    source: str
    architecture: str
    checkpoint: str
    dataset: str
    state: JobState
    #: The newest attempt's number and what went wrong in it; None where there is none.
    attempt: int | None
    error: str | None


def move(
    connection: Connection, keys: Collection[str], state: JobState, among: Collection[JobState]
) -> int:
    """Bring jobs in some states to another; return how many were moved."""
    values: dict[str, Any] = {"state": state, "updated_at": datetime.now(UTC)}
    if state == "todo":
        values["losses"] = 0
    moved = update(JOBS).where(JOBS.c.state.in_(among)).values(**values)
    return sum(
        rowcount(connection, moved.where(JOBS.c.key.in_(portion)))
        for portion in portions(sorted(keys))
    )
