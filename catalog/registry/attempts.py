"""Attempts at jobs: how they begin and end, and what becomes of their jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Select, bindparam, case, func, insert, select, update

from catalog.registry.database import Database, portions
from catalog.registry.rows import Attempt, AttemptOutcome, JobState
from catalog.registry.tables import ATTEMPTS, JOBS
from survey.errors import UnknownName


@dataclass(frozen=True, slots=True)
class AttemptStart:
    """An attempt that begins."""

    #: The job attempted.
    job_key: str
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
    #: The job's state afterwards: several attempts may be at parts of one job at once.
    leaves: JobState
    #: Images measured when it ended.
    images_done: int | None = None
    #: Workers that its job had lost in a row by then.
    losses: int = 0
    #: The stage it failed in.
    stage: str | None = None
    #: What went wrong, in a sentence.
    error: str | None = None
    #: Where in the program it failed.
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts at the jobs of a registry."""

    #: The registry's.
    database: Database

    def of(self, job_key: str) -> list[Attempt]:
        """Return the attempts at a job, in order."""
        return self.database.rows(
            Attempt, ATTEMPTS, ATTEMPTS.c.job_key == job_key, order=[ATTEMPTS.c.attempt]
        )

    def start(self, starts: Sequence[AttemptStart]) -> list[int | None]:
        """Begin attempts at jobs and return their numbers, counting from 1.

        None for a job that was cancelled: nothing begins then, and it stays cancelled.

        Raises
        ------
        UnknownName
            If there is no such job; then none of them begins.
        """
        keys, now = {one.job_key for one in starts}, datetime.now(UTC)
        highest = func.max(ATTEMPTS.c.attempt)
        wanted = select(ATTEMPTS.c.job_key, highest).group_by(ATTEMPTS.c.job_key)
        numbers: list[int | None] = []
        rows = []
        with self.database.transaction() as connection:
            # The jobs' rows first: another process that begins one of them waits for its number.
            taken = _take(connection, keys)
            if taken != keys:
                known = set(connection.scalars(select(JOBS.c.key)))
                if unknown := keys - known:
                    raise UnknownName("job", min(unknown), known)
            newest = dict.fromkeys(taken, 0) | dict(_rows_of(connection, taken, wanted))
            for one in starts:
                if one.job_key not in taken:
                    numbers.append(None)
                    continue
                number = newest[one.job_key] = max(newest[one.job_key], one.after) + 1
                numbers.append(number)
                row = {"job_key": one.job_key, "attempt": number, "started_at": now}
                rows.append({**row, "worker": "starting"})
            for portion in portions(rows):
                connection.execute(insert(ATTEMPTS), portion)
        return numbers

    def describe(self, descriptions: Sequence[AttemptWorker]) -> None:
        """Store which processes carry attempts out, once that is known."""
        with self.database.transaction() as connection:
            _update(connection, descriptions, ("worker", "pid"))

    def forget_losses(self, job_keys: Collection[str]) -> None:
        """Begin the count of workers that jobs lost in a row anew."""
        with self.database.transaction() as connection:
            for portion in portions(sorted(job_keys)):
                jobs = update(JOBS).where(JOBS.c.key.in_(portion))
                connection.execute(jobs.values(losses=0))

    def finish(self, ends: Sequence[AttemptEnd]) -> None:
        """End attempts and bring their jobs to the state that follows, all or none.

        A late end of an attempt that has ended already does not move the job. A job that was
        cancelled meanwhile stays so unless it is done, and one that was parked does not come back
        by losing its worker.
        """
        keys = {end.job_key for end in ends}
        wanted = select(ATTEMPTS.c.job_key, ATTEMPTS.c.attempt).where(ATTEMPTS.c.ended_at.is_(None))
        written = ("outcome", "stage", "error", "traceback", "images_done")
        with self.database.transaction() as connection:
            _hold(connection, keys)
            going = {tuple(row) for row in _rows_of(connection, keys, wanted)}
            ended = []
            for end in ends:
                if (end.job_key, end.attempt) in going:
                    going.remove((end.job_key, end.attempt))
                    ended.append(end)
            _update(connection, ended, written, ended_at=datetime.now(UTC))
            _move(connection, ended)


def _take(connection: Connection, keys: Collection[str]) -> set[str]:
    """Set jobs running, except cancelled ones; return the keys of those that were set."""
    running = update(JOBS).where(JOBS.c.state != "cancelled")
    running = running.values(state="running", updated_at=datetime.now(UTC))
    taken: set[str] = set()
    for portion in portions(sorted(keys)):
        wanted = running.where(JOBS.c.key.in_(portion)).returning(JOBS.c.key)
        taken.update(connection.scalars(wanted))
    return taken


def _rows_of(connection: Connection, keys: Collection[str], wanted: Select[Any]) -> Iterator[Any]:
    for portion in portions(sorted(keys)):
        yield from connection.execute(wanted.where(ATTEMPTS.c.job_key.in_(portion)))


def _hold(connection: Connection, keys: Collection[str]) -> None:
    """Keep other processes from moving these jobs until the transaction ends."""
    for portion in portions(sorted(keys)):
        held = update(JOBS).where(JOBS.c.key.in_(portion))
        connection.execute(held.values(losses=JOBS.c.losses))


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
    alike: dict[tuple[JobState, int], list[str]] = {}
    # Of several ends of one job the last one knows of the others.
    for end in {end.job_key: end for end in ends}.values():
        alike.setdefault((end.leaves, end.losses), []).append(end.job_key)
    for (state, losses), keys in alike.items():
        values = {"state": _state_after(state), "losses": losses, "updated_at": datetime.now(UTC)}
        for portion in portions(sorted(keys)):
            connection.execute(update(JOBS).where(JOBS.c.key.in_(portion)).values(**values))


def _state_after(state: JobState) -> Any:
    # A job that was cancelled or parked meanwhile stays so.
    if state in ("todo", "running"):
        return case((JOBS.c.state == "running", state), else_=JOBS.c.state)
    if state in ("failed", "parked"):
        return case((JOBS.c.state == "cancelled", "cancelled"), else_=state)
    return state
