"""The registry: what is to be done, and what was tried.

Any process may use it at any time; every method is one short transaction. What was measured is not
here but in the signature store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, func, insert, select, update

from catalog.home import Home
from catalog.registry.attempts import Attempts
from catalog.registry.database import Database, portions, values_of
from catalog.registry.events import Events
from catalog.registry.hash_cache import Hashes
from catalog.registry.labels import Labels
from catalog.registry.revisions import revision_of
from catalog.registry.rows import JobEntry, JobOverview, JobRow, JobState
from catalog.registry.saved_queries import SavedQueries
from catalog.registry.schedules import Schedules
from catalog.registry.submissions import Submissions
from catalog.registry.tables import ATTEMPTS, JOBS, MEMORY, SURVEY_JOBS, SURVEYS
from catalog.registry.tokens import Tokens
from survey.errors import StoreError


class Registry:
    """The registry of one home.

    Parameters
    ----------
    home : Home
        An opened home.

    Raises
    ------
    StoreError
        If there is no registry, it is newer than this program, or cannot be used.

    Attributes
    ----------
    attempts : Attempts
        Attempts at jobs.
    events : Events
        Notices of what happened, and their deliveries.
    hashes : Hashes
        Hashes that need no second reading.
    labels : Labels
        Labels and tags of runs.
    saved_queries : SavedQueries
        Queries that users of the service keep.
    schedules : Schedules
        Surveys that are run again and again.
    submissions : Submissions
        Surveys that were submitted to the service.
    tokens : Tokens
        What lets clients of the service in.
    """

    def __init__(self, home: Home) -> None:
        self._database = Database(home)
        try:
            with self._database.transaction() as connection:
                revision_of(connection)
        except StoreError:
            self.close()
            raise
        self.attempts = Attempts(self._database)
        self.events = Events(self._database)
        self.hashes = Hashes(self._database)
        self.labels = Labels(self._database)
        self.saved_queries = SavedQueries(self._database)
        self.schedules = Schedules(self._database)
        self.submissions = Submissions(self._database)
        self.tokens = Tokens(self._database)

    def record_survey(self, name: str, definition: dict[str, Any]) -> int:
        """Return the number of a declared survey; the same declaration keeps its number."""
        known = select(SURVEYS.c.id, SURVEYS.c.definition).where(SURVEYS.c.name == name)
        new = insert(SURVEYS).returning(SURVEYS.c.id)
        with self._database.writing(SURVEYS) as connection:
            for row in connection.execute(known.order_by(SURVEYS.c.id)):
                if row.definition == definition:
                    return int(row.id)
            values = {"name": name, "declared_at": _now(), "definition": definition}
            return int(connection.execute(new.values(**values)).scalar_one())

    def add_jobs(self, survey_id: int, jobs: Iterable[JobEntry]) -> None:
        """Add jobs that a survey asks for; those known already stay as they are."""
        now = _now()
        fixed = {"state": "todo", "losses": 0, "created_at": now, "updated_at": now}
        rows = [{**values_of(job, JobEntry), **fixed} for job in jobs]
        links = [{"survey_id": survey_id, "job_key": row["key"]} for row in rows]
        with self._database.transaction() as connection:
            for table, entries in ((JOBS, rows), (SURVEY_JOBS, links)):
                new = self._database.insert(table).on_conflict_do_nothing()
                for portion in portions(entries):
                    connection.execute(new, portion)

    def survey_of(self, job_key: str) -> int | None:
        """Return the number of the newest survey that asks for a job; None if none does."""
        newest = select(func.max(SURVEY_JOBS.c.survey_id)).where(SURVEY_JOBS.c.job_key == job_key)
        with self._database.transaction() as connection:
            return connection.execute(newest).scalar()

    def bases(self, job_key: str) -> set[str]:
        """Return the folders from which surveys that asked for a job started."""
        asked = (
            select(SURVEYS.c.definition).join(SURVEY_JOBS).where(SURVEY_JOBS.c.job_key == job_key)
        )
        with self._database.transaction() as connection:
            return {str(row.definition.get("base")) for row in connection.execute(asked)}

    def set_states(
        self, keys: Collection[str], state: JobState, among: Collection[JobState]
    ) -> frozenset[str]:
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
        frozenset of str
            The jobs that were brought there.
        """
        values: dict[str, Any] = {"state": state, "updated_at": _now()}
        if state == "todo":
            values["losses"] = 0
        move = update(JOBS).where(JOBS.c.state.in_(among)).values(**values).returning(JOBS.c.key)
        with self._database.transaction() as connection:
            return frozenset(
                key
                for portion in portions(sorted(keys))
                for key in connection.scalars(move.where(JOBS.c.key.in_(portion)))
            )

    def cancelled_keys(self) -> frozenset[str]:
        """Return the keys of the jobs that are cancelled: quick, for a scan that asks often."""
        with self._database.transaction() as connection:
            cancelled = select(JOBS.c.key).where(JOBS.c.state == "cancelled")
            return frozenset(connection.scalars(cancelled))

    def jobs(self, survey_id: int | None = None) -> list[JobRow]:
        """Return the jobs, or those that a survey asks for, in the order they were added."""
        chosen = [] if survey_id is None else [_of_survey(survey_id)]
        return self._database.rows(JobRow, JOBS, *chosen, order=[JOBS.c.created_at, JOBS.c.key])

    def overview(self, survey_id: int | None = None) -> list[JobOverview]:
        """Return the state of every job, or of a survey's, and its newest attempt.

        Quick with many jobs.
        """
        newest = (
            select(ATTEMPTS.c.job_key, func.max(ATTEMPTS.c.attempt).label("attempt"))
            .group_by(ATTEMPTS.c.job_key)
            .subquery()
        )
        last = ATTEMPTS.alias()
        of_it = (last.c.job_key == newest.c.job_key) & (last.c.attempt == newest.c.attempt)
        names = ("key", "run_id", "source", "architecture", "checkpoint", "dataset", "state")
        wanted = (
            select(*(JOBS.c[name] for name in names), last.c.attempt, last.c.error)
            .outerjoin(newest, newest.c.job_key == JOBS.c.key)
            .outerjoin(last, of_it)
        )
        if survey_id is not None:
            wanted = wanted.where(_of_survey(survey_id))
        with self._database.transaction() as connection:
            return [JobOverview._make(row) for row in connection.execute(wanted)]

    def mark_interrupted(self) -> list[tuple[str, int]]:
        """End what a killed scan left open: its attempts are interrupted, its jobs are to do.

        To be called under the writer's lock, so that no other scan runs.

        Returns
        -------
        list of (str, int)
            The runs and attempts that were open.
        """
        now = _now()
        going, running = ATTEMPTS.c.ended_at.is_(None), JOBS.c.state == "running"
        attempts = select(JOBS.c.run_id, ATTEMPTS.c.attempt).join_from(JOBS, ATTEMPTS).where(going)
        ended = update(ATTEMPTS).where(going).values(ended_at=now, outcome="interrupted")
        with self._database.transaction() as connection:
            interrupted = [(run_id, attempt) for run_id, attempt in connection.execute(attempts)]
            connection.execute(ended)
            connection.execute(update(JOBS).where(running).values(state="todo", updated_at=now))
        return interrupted

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


def _of_survey(survey_id: int) -> ColumnElement[bool]:
    """Return the condition that a survey asks for a job."""
    asked = select(SURVEY_JOBS.c.job_key).where(SURVEY_JOBS.c.survey_id == survey_id)
    return JOBS.c.key.in_(asked)


def _now() -> datetime:
    return datetime.now(UTC)
