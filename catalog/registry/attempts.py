"""Attempts at jobs: their values, and the statements that store them.

Every function works within its caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Select, bindparam, case, func, insert, select, update

from catalog.registry.database import portions
from catalog.registry.rows import AttemptOutcome, JobState
from catalog.registry.tables import ATTEMPTS, JOBS

#: What becomes of a job after its newest attempt.
STATE_AFTER: dict[AttemptOutcome, JobState] = {
    "done": "done",
    "failed": "failed",
    "lost": "todo",
    "interrupted": "todo",
}


@dataclass(frozen=True, slots=True)
class AttemptStart:
    """An attempt that begins."""

    #: The job attempted.
    job_key: str
    #: Who attempts it.
    worker: str
    pid: int | None = None
    #: A number the attempt's must exceed: rows of earlier attempts may be in the store though the
    #: registry does not know them.
    after: int = 0


@dataclass(frozen=True, slots=True)
class AttemptWorker:
    """Which process carries an attempt out, once that is known."""

    job_key: str
    attempt: int
    worker: str
    pid: int


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """An attempt that ended."""

    job_key: str
    attempt: int
    #: How.
    outcome: AttemptOutcome
    #: The stage it failed in.
    stage: str | None = None
    #: What went wrong, in a sentence.
    error: str | None = None
    #: Where in the program it failed.
    traceback: str | None = None
    #: Images measured when it ended.
    images_done: int | None = None
    #: Whether it made a batch durable: a worker lost after that does not count against the job.
    progressed: bool = False
    #: The job's state afterwards, where it does not follow from the outcome: several attempts may
    #: be at parts of one job at once.
    leaves: JobState | None = None


def take(connection: Connection, keys: Collection[str]) -> set[str]:
    """Set jobs running, except cancelled ones; return the keys of those that were set."""
    running = update(JOBS).where(JOBS.c.state != "cancelled")
    running = running.values(state="running", updated_at=datetime.now(UTC))
    taken: set[str] = set()
    for portion in portions(sorted(keys)):
        wanted = running.where(JOBS.c.key.in_(portion)).returning(JOBS.c.key)
        taken.update(connection.scalars(wanted))
    return taken


def start(connection: Connection, starts: Sequence[AttemptStart]) -> list[int]:
    """Begin attempts at jobs whose rows the caller has taken; return their numbers."""
    now = datetime.now(UTC)
    newest = _newest(connection, {one.job_key for one in starts})
    numbers = []
    for one in starts:
        numbers.append(max(newest.get(one.job_key, 0), one.after) + 1)
        newest[one.job_key] = numbers[-1]
    rows = [
        {"job_key": one.job_key, "attempt": number, "worker": one.worker}
        | {"pid": one.pid, "started_at": now}
        for one, number in zip(starts, numbers, strict=True)
    ]
    for portion in portions(rows):
        connection.execute(insert(ATTEMPTS), portion)
    return numbers


def describe(connection: Connection, descriptions: Sequence[AttemptWorker]) -> None:
    """Store which processes carry attempts out."""
    _update(connection, descriptions, ("worker", "pid"))


def finish(connection: Connection, ends: Sequence[AttemptEnd]) -> None:
    """End attempts that go on; move the jobs whose newest they are, or whose state they set."""
    keys = {end.job_key for end in ends}
    _hold(connection, keys)
    going = _going(connection, keys)
    ended = []
    for end in ends:
        if (end.job_key, end.attempt) in going:
            going.remove((end.job_key, end.attempt))
            ended.append(end)
    written = ("outcome", "stage", "error", "traceback", "images_done")
    _update(connection, ended, written, ended_at=datetime.now(UTC))
    newest = _newest(connection, keys)
    _move(connection, [e for e in ended if e.leaves or newest[e.job_key] == e.attempt])


def _newest(connection: Connection, keys: Collection[str]) -> dict[str, int]:
    wanted = select(ATTEMPTS.c.job_key, func.max(ATTEMPTS.c.attempt)).group_by(ATTEMPTS.c.job_key)
    return {row[0]: row[1] for row in _rows_of(connection, keys, wanted)}


def _rows_of(connection: Connection, keys: Collection[str], wanted: Select[Any]) -> Iterator[Any]:
    for portion in portions(sorted(keys)):
        yield from connection.execute(wanted.where(ATTEMPTS.c.job_key.in_(portion)))


def _hold(connection: Connection, keys: Collection[str]) -> None:
    """Keep other processes from moving these jobs until the transaction ends."""
    for portion in portions(sorted(keys)):
        held = update(JOBS).where(JOBS.c.key.in_(portion))
        connection.execute(held.values(losses=JOBS.c.losses))


def _going(connection: Connection, keys: Collection[str]) -> set[tuple[str, int]]:
    wanted = select(ATTEMPTS.c.job_key, ATTEMPTS.c.attempt).where(ATTEMPTS.c.ended_at.is_(None))
    return {(row[0], row[1]) for row in _rows_of(connection, keys, wanted)}


def _update(
    connection: Connection,
    changes: Sequence[AttemptWorker] | Sequence[AttemptEnd],
    names: Sequence[str],
    **alike: datetime,
) -> None:
    """Store some fields of changes in the attempts they name, and values that are alike in all."""
    statement = (
        update(ATTEMPTS)
        .where(
            ATTEMPTS.c.job_key == bindparam("of_key"),
            ATTEMPTS.c.attempt == bindparam("of_attempt"),
        )
        .values(**alike, **{name: bindparam(f"new_{name}") for name in names})
    )
    rows = [
        {"of_key": one.job_key, "of_attempt": one.attempt}
        | {f"new_{name}": getattr(one, name) for name in names}
        for one in changes
    ]
    for portion in portions(rows):
        connection.execute(statement, portion)


def _move(connection: Connection, ends: Sequence[AttemptEnd]) -> None:
    alike: dict[tuple[JobState, AttemptOutcome, bool], list[str]] = {}
    for end in ends:
        state = end.leaves or STATE_AFTER[end.outcome]
        alike.setdefault((state, end.outcome, end.progressed), []).append(end.job_key)
    for (state, outcome, progressed), keys in alike.items():
        values = _values_after(state, outcome, progressed)
        for portion in portions(sorted(keys)):
            connection.execute(update(JOBS).where(JOBS.c.key.in_(portion)).values(**values))


def _values_after(state: JobState, outcome: AttemptOutcome, progressed: bool) -> dict[str, Any]:
    after: Any = state
    # A job that was cancelled or parked meanwhile stays so.
    if state in ("todo", "running"):
        after = case((JOBS.c.state == "running", state), else_=JOBS.c.state)
    elif state in ("failed", "parked"):
        after = case((JOBS.c.state == "cancelled", "cancelled"), else_=state)
    values = {"state": after, "updated_at": datetime.now(UTC)}
    if progressed or outcome == "done":
        return {**values, "losses": 0}
    return {**values, "losses": JOBS.c.losses + 1} if outcome == "lost" else values
