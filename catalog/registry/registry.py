"""The registry: what is to be done, and what was tried.

Any process may use it at any time; every method is one short transaction. What was measured is not
here but in the signature store. Its other parts are ``hashes`` and ``schedules``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, get_args

from sqlalchemy import func, insert, select, update

from catalog.home import Home
from catalog.registry import attempts
from catalog.registry.attempts import AttemptEnd, AttemptStart, AttemptWorker
from catalog.registry.database import Database, columns_of, portions, rowcount
from catalog.registry.hash_cache import Hashes
from catalog.registry.rows import Attempt, JobEntry, JobOverview, JobRow, JobState
from catalog.registry.schedules import Schedules
from catalog.registry.tables import ATTEMPTS, JOBS, MEMORY, SURVEY_JOBS, SURVEYS
from survey.errors import UnknownName


class Registry:
    """The registry of one home.

    Parameters
    ----------
    home : Home
        An opened home.

    Attributes
    ----------
    hashes : Hashes
        Hashes that need no second reading.
    schedules : Schedules
        Surveys that are run again and again.
    """

    def __init__(self, home: Home) -> None:
        self._database = Database(home)
        self.hashes = Hashes(self._database)
        self.schedules = Schedules(self._database)

    def record_survey(self, name: str, definition: dict[str, Any]) -> int:
        """Return the number of a declared survey; the same declaration keeps its number."""
        known = select(SURVEYS.c.id, SURVEYS.c.definition).where(SURVEYS.c.name == name)
        new = insert(SURVEYS).returning(SURVEYS.c.id)
        with self._database.transaction() as connection:
            for row in connection.execute(known.order_by(SURVEYS.c.id)):
                if row.definition == definition:
                    return int(row.id)
            values = {"name": name, "declared_at": _now(), "definition": definition}
            return int(connection.execute(new.values(**values)).scalar_one())

    def add_jobs(self, survey_id: int, jobs: Iterable[JobEntry]) -> int:
        """Add jobs that a survey asks for; those known already stay as they are.

        Returns
        -------
        int
            How many were new.
        """
        now = _now()
        fixed = {"state": "todo", "losses": 0, "created_at": now, "updated_at": now}
        rows = [{**dataclasses.asdict(job), **fixed} for job in jobs]
        links = [{"survey_id": survey_id, "job_key": row["key"]} for row in rows]
        new = self._database.insert(JOBS).on_conflict_do_nothing().returning(JOBS.c.key)
        link = self._database.insert(SURVEY_JOBS).on_conflict_do_nothing()
        with self._database.transaction() as connection:
            added = 0
            for portion in portions(rows):
                added += len(connection.execute(new, portion).all())
            for linked in portions(links):
                connection.execute(link, linked)
        return added

    def start_attempts(self, starts: Sequence[AttemptStart]) -> list[int | None]:
        """Begin attempts at jobs and return their numbers, counting from 1.

        None for a job that was cancelled: nothing begins then, and it stays cancelled.

        Raises
        ------
        UnknownName
            If there is no such job; then none of them begins.
        """
        keys = {one.job_key for one in starts}
        with self._database.transaction() as connection:
            # The jobs' rows first: another process that begins one of them waits for its number.
            taken = attempts.take(connection, keys)
            if taken != keys:
                known = set(connection.scalars(select(JOBS.c.key)))
                if unknown := keys - known:
                    raise UnknownName("job", min(unknown), known)
            begun = iter(attempts.start(connection, [s for s in starts if s.job_key in taken]))
            return [next(begun) if one.job_key in taken else None for one in starts]

    def describe_attempts(self, descriptions: Sequence[AttemptWorker]) -> None:
        """Store which processes carry attempts out, once that is known."""
        with self._database.transaction() as connection:
            attempts.describe(connection, descriptions)

    def finish_attempts(self, ends: Sequence[AttemptEnd]) -> None:
        """End attempts and bring their jobs to the state that follows, all or none.

        A late end of an attempt that has ended already, or that a later one has overtaken, does
        not move the job. A job that was cancelled meanwhile stays so unless it is done, and one
        that was parked does not come back by losing its worker.
        """
        with self._database.transaction() as connection:
            attempts.finish(connection, ends)

    def set_states(
        self,
        keys: Collection[str],
        state: JobState,
        among: Collection[JobState] = get_args(JobState),
    ) -> int:
        """Bring jobs to a state by hand: ``parked``, ``cancelled``, or ``todo`` to try them again.

        Jobs that go back to ``todo`` begin with no losses.

        Parameters
        ----------
        keys : collection of str
            The jobs.
        state : JobState
            Where they go.
        among : collection of JobState
            Only from these: a job that moved elsewhere meanwhile, such as to ``done``, stays there.

        Returns
        -------
        int
            How many of the jobs were moved.
        """
        values: dict[str, Any] = {"state": state, "updated_at": _now()}
        if state == "todo":
            values["losses"] = 0
        moved = update(JOBS).where(JOBS.c.state.in_(among)).values(**values)
        with self._database.transaction() as connection:
            return sum(
                rowcount(connection, moved.where(JOBS.c.key.in_(portion)))
                for portion in portions(sorted(keys))
            )

    def cancelled_keys(self) -> frozenset[str]:
        """Return the keys of the jobs that are cancelled: quick, for a scan that asks often."""
        with self._database.transaction() as connection:
            cancelled = select(JOBS.c.key).where(JOBS.c.state == "cancelled")
            return frozenset(connection.scalars(cancelled))

    def jobs(self, survey_id: int | None = None) -> list[JobRow]:
        """Return the jobs, or those that a survey asks for, in the order they were added."""
        wanted = columns_of(JOBS, JobRow).order_by(JOBS.c.created_at, JOBS.c.key)
        if survey_id is not None:
            wanted = wanted.join(SURVEY_JOBS, SURVEY_JOBS.c.job_key == JOBS.c.key).where(
                SURVEY_JOBS.c.survey_id == survey_id
            )
        with self._database.transaction() as connection:
            return [JobRow(*row) for row in connection.execute(wanted)]

    def attempts(self, job_key: str) -> list[Attempt]:
        """Return the attempts at a job, in order."""
        wanted = columns_of(ATTEMPTS, Attempt).where(ATTEMPTS.c.job_key == job_key)
        with self._database.transaction() as connection:
            rows = connection.execute(wanted.order_by(ATTEMPTS.c.attempt))
            return [Attempt(*row) for row in rows]

    def overview(self) -> list[JobOverview]:
        """Return how every job stands with its newest attempt: quick with many jobs."""
        newest = (
            select(ATTEMPTS.c.job_key, func.max(ATTEMPTS.c.attempt).label("attempt"))
            .group_by(ATTEMPTS.c.job_key)
            .subquery()
        )
        last = ATTEMPTS.alias()
        of_it = (last.c.job_key == newest.c.job_key) & (last.c.attempt == newest.c.attempt)
        names = ("run_id", "source", "architecture", "checkpoint", "dataset", "state")
        wanted = (
            select(*(JOBS.c[name] for name in names), last.c.attempt, last.c.error)
            .outerjoin(newest, newest.c.job_key == JOBS.c.key)
            .outerjoin(last, of_it)
        )
        with self._database.transaction() as connection:
            return [JobOverview._make(row) for row in connection.execute(wanted)]

    def mark_interrupted(self) -> int:
        """End what a killed scan left open: its attempts are interrupted, its jobs are to do.

        To be called under the writer's lock, so that no other scan runs.

        Returns
        -------
        int
            How many attempts were open.
        """
        now = _now()
        with self._database.transaction() as connection:
            count = rowcount(
                connection,
                update(ATTEMPTS)
                .where(ATTEMPTS.c.ended_at.is_(None))
                .values(ended_at=now, outcome="interrupted"),
            )
            connection.execute(
                update(JOBS).where(JOBS.c.state == "running").values(state="todo", updated_at=now)
            )
            return count

    def remember_micro_batch(
        self, architecture: str, device_name: str, size: int, micro_batch: int
    ) -> None:
        """Keep what fitted after a device ran out of memory; the smallest one stays.

        Parameters
        ----------
        architecture : str
            The network with its source.
        device_name : str
            The device's own name.
        size : int
            Height and width of the images, in pixels.
        micro_batch : int
            Images in one forward pass.
        """
        key = {"architecture": architecture, "device_name": device_name, "size": size}
        values = {"micro_batch": micro_batch, "recorded_at": _now()}
        self._database.upsert(MEMORY, key, values, MEMORY.c.micro_batch > micro_batch)

    def micro_batches(self) -> dict[tuple[str, str, int], int]:
        """Return what fitted, by architecture, device name and image size."""
        columns = (MEMORY.c.architecture, MEMORY.c.device_name, MEMORY.c.size)
        with self._database.transaction() as connection:
            rows = connection.execute(select(*columns, MEMORY.c.micro_batch)).all()
        return {(row[0], row[1], row[2]): row[3] for row in rows}

    def close(self) -> None:
        """Give the database's connections back."""
        self._database.close()

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _now() -> datetime:
    return datetime.now(UTC)
