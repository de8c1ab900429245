"""The registry: what is to be done and what was tried, and hashes that need no second reading.

Any process may use it at any time; every method is one short transaction. What was measured is not
here but in the signature store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from sqlalchemy import CursorResult, case, func, insert, literal, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from catalog.database import explained_registry, registry_engine
from catalog.files import file_sha256
from catalog.home import Home
from catalog.tables import AttemptTable, Base, CheckpointTable, DatasetTable, JobTable, SurveyTable
from survey.errors import CheckpointError, SettingsError, StoreError, UnknownName

#: What is to be done about a job: nothing more once it is ``done``.
JobState = Literal["todo", "running", "done", "failed"]

#: How an attempt ended: measured; failed by itself; its worker died; the scan was stopped.
Outcome = Literal["done", "failed", "lost", "interrupted"]

_STATE_AFTER: dict[Outcome, JobState] = {
    "done": "done",
    "failed": "failed",
    "lost": "todo",
    "interrupted": "todo",
}


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
class Job(JobEntry):
    """A run that is to be done, and where it stands."""

    #: The survey that first asked for it.
    survey_id: int
    #: What is to be done about it.
    state: JobState
    #: When it was first asked for.
    created_at: datetime
    #: When its state last changed.
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a job."""

    #: Its number among all attempts.
    id: int
    #: The job attempted.
    job_key: str
    #: Which attempt at the job, counting from 1.
    attempt: int
    #: The worker's name.
    worker: str
    #: The worker's process.
    pid: int | None
    #: When it began.
    started_at: datetime
    #: When it ended; None while it goes on.
    ended_at: datetime | None
    #: How it ended; None while it goes on.
    outcome: Outcome | None
    #: The stage it failed in.
    stage: str | None
    #: What went wrong, in a sentence.
    error: str | None
    #: Where in the program it failed.
    traceback: str | None
    #: Images measured when it ended.
    images_done: int | None


class Registry:
    """The registry of one home.

    Parameters
    ----------
    home : Home
        An opened home.
    """

    def __init__(self, home: Home) -> None:
        if home.registry_url is None and not home.registry.is_file():
            raise StoreError(
                f"{home.registry} does not exist",
                hint="the next survey run makes it; survey sql and show work without",
            )
        self._engine = registry_engine(home)

    def cached_checkpoint_sha256(self, path: Path) -> str:
        """Return the sha256 (hex) of a file of weights, reading it only if it changed.

        Raises
        ------
        CheckpointError
            If the file cannot be read.
        """
        path = path.absolute()
        uri = f"file:{path}"
        before = _size_and_time(path)
        with self._session() as session:
            row = session.get(CheckpointTable, uri)
            if row is not None and (row.bytes, row.mtime_ns) == before:
                return row.sha256
        sha256 = file_sha256(path)
        if _size_and_time(path) == before:
            values = {"path": str(path), "bytes": before[0], "mtime_ns": before[1]}
            self._upsert(CheckpointTable, {"uri": uri}, {**values, "sha256": sha256})
        return sha256

    def cached_dataset_fingerprint(
        self,
        name: str,
        stat_signature: str,
        compute: Callable[[], str],
        images: int | None = None,
    ) -> str:
        """Return a dataset's fingerprint, computing it only if its files changed.

        Parameters
        ----------
        name : str
            The dataset's full name.
        stat_signature : str
            A hash over its files' names, sizes and times, which is quick to get.
        compute : callable
            Gives the fingerprint by reading every image.
        images : int, optional
            How many images it has.
        """
        with self._session() as session:
            row = session.get(DatasetTable, name)
            if row is not None and row.stat_signature == stat_signature:
                return row.fingerprint
        fingerprint = compute()
        values = {"stat_signature": stat_signature, "fingerprint": fingerprint, "images": images}
        self._upsert(DatasetTable, {"name": name}, values)
        return fingerprint

    def record_survey(self, name: str, definition: dict[str, Any]) -> int:
        """Return the number of a declared survey; the same declaration keeps its number."""
        with self._session() as session:
            for known in session.scalars(select(SurveyTable).where(SurveyTable.name == name)):
                if known.definition == definition:
                    return known.id
            survey = SurveyTable(name=name, declared_at=_now(), definition=definition)
            session.add(survey)
            session.flush()
            return survey.id

    def add_jobs(self, survey_id: int, jobs: Iterable[JobEntry]) -> int:
        """Add jobs to be done; those known already stay as they are.

        Returns
        -------
        int
            How many were new.
        """
        now = _now()
        rows = [
            {**_values(job, JobEntry), "survey_id": survey_id, "state": "todo"}
            | {"created_at": now, "updated_at": now}
            for job in jobs
        ]
        with self._session() as session:
            # One by one: the count of rows of a bulk insert is not reported by every driver.
            return sum(
                _rowcount(session, self._insert(JobTable).values(row).on_conflict_do_nothing())
                for row in rows
            )

    def start_attempt(
        self, job_key: str, worker: str, pid: int | None = None, after: int = 0
    ) -> int:
        """Begin an attempt at a job and return its number, counting from 1.

        Parameters
        ----------
        job_key, worker, pid
            The job, and who attempts it.
        after : int
            A number the attempt's must exceed: rows of earlier attempts may be in the store though
            this registry does not know them.

        Raises
        ------
        UnknownName
            If there is no such job.
        """
        # Number and row come from one statement, so that two processes never get the same.
        newest = func.coalesce(func.max(AttemptTable.attempt), 0)
        number = select(
            literal(job_key),
            case((newest > after, newest), else_=after) + 1,
            literal(worker),
            literal(pid, AttemptTable.pid.type),
            literal(_now(), AttemptTable.started_at.type),
        ).where(AttemptTable.job_key == job_key)
        columns = ["job_key", "attempt", "worker", "pid", "started_at"]
        with self._session() as session:
            if not self._set_state(session, job_key, "running"):
                raise UnknownName("job", job_key, session.scalars(select(JobTable.key)))
            inserted = insert(AttemptTable).from_select(columns, number)
            return int(session.execute(inserted.returning(AttemptTable.attempt)).scalar_one())

    def describe_attempt(self, job_key: str, attempt: int, *, worker: str, pid: int) -> None:
        """Say which process carries an attempt out, once that is known."""
        one = (AttemptTable.job_key == job_key) & (AttemptTable.attempt == attempt)
        with self._session() as session:
            session.execute(update(AttemptTable).where(one).values(worker=worker, pid=pid))

    def finish_attempt(
        self,
        job_key: str,
        attempt: int,
        outcome: Outcome,
        *,
        stage: str | None = None,
        error: str | None = None,
        traceback: str | None = None,
        images_done: int | None = None,
    ) -> None:
        """End an attempt and bring its job to the state that follows.

        A late end of an attempt that has ended already, or that a later one has overtaken, does
        not move the job.

        Raises
        ------
        SettingsError
            If the outcome is not one of ``Outcome``.
        """
        if outcome not in _STATE_AFTER:
            raise SettingsError(f"outcome is {outcome!r}, must be one of {', '.join(_STATE_AFTER)}")
        one = (AttemptTable.job_key == job_key) & (AttemptTable.attempt == attempt)
        with self._session() as session:
            ended = _rowcount(
                session,
                update(AttemptTable)
                .where(one, AttemptTable.ended_at.is_(None))
                .values(ended_at=_now(), outcome=outcome, stage=stage, error=error)
                .values(traceback=traceback, images_done=images_done),
            )
            newest = select(func.max(AttemptTable.attempt)).where(AttemptTable.job_key == job_key)
            if ended and session.scalar(newest) == attempt:
                self._set_state(session, job_key, _STATE_AFTER[outcome])

    def jobs(self, survey_id: int | None = None) -> list[Job]:
        """Return the jobs, or those a survey first asked for, in the order they were added."""
        wanted = select(JobTable).order_by(JobTable.created_at, JobTable.key)
        if survey_id is not None:
            wanted = wanted.where(JobTable.survey_id == survey_id)
        with self._session() as session:
            return [Job(**_values(row, Job)) for row in session.scalars(wanted)]

    def attempts(self, job_key: str) -> list[Attempt]:
        """Return the attempts at a job, in order."""
        wanted = select(AttemptTable).where(AttemptTable.job_key == job_key)
        with self._session() as session:
            rows = session.scalars(wanted.order_by(AttemptTable.attempt))
            return [Attempt(**_values(row, Attempt)) for row in rows]

    def last_attempts(self) -> dict[str, Attempt]:
        """Return the newest attempt at each job that was attempted, by the job's key."""
        wanted = select(AttemptTable).order_by(AttemptTable.attempt)
        with self._session() as session:
            rows = [Attempt(**_values(row, Attempt)) for row in session.scalars(wanted)]
        return {row.job_key: row for row in rows}

    def mark_interrupted(self) -> int:
        """End what a killed scan left open: its attempts are interrupted, its jobs are to do.

        For the holder of the writer's lock, who knows that no other scan runs.

        Returns
        -------
        int
            How many attempts were open.
        """
        now = _now()
        with self._session() as session:
            count = _rowcount(
                session,
                update(AttemptTable)
                .where(AttemptTable.ended_at.is_(None))
                .values(ended_at=now, outcome="interrupted"),
            )
            session.execute(
                update(JobTable)
                .where(JobTable.state == "running")
                .values(state="todo", updated_at=now)
            )
            return count

    def close(self) -> None:
        """Give the database's connections back."""
        self._engine.dispose()

    def __enter__(self) -> Registry:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def _session(self) -> Iterator[Session]:
        with explained_registry(self._engine), Session(self._engine) as session, session.begin():
            yield session

    def _insert(self, table: type[Base]) -> sqlite.Insert | postgresql.Insert:
        postgres = self._engine.dialect.name == "postgresql"
        return postgresql.insert(table) if postgres else sqlite.insert(table)

    def _upsert(self, table: type[Base], key: dict[str, Any], values: dict[str, Any]) -> None:
        statement = self._insert(table).values(**key, **values)
        with self._session() as session:
            session.execute(statement.on_conflict_do_update(index_elements=list(key), set_=values))

    @staticmethod
    def _set_state(session: Session, job_key: str, state: JobState) -> int:
        return _rowcount(
            session,
            update(JobTable).where(JobTable.key == job_key).values(state=state, updated_at=_now()),
        )


def _rowcount(session: Session, statement: Any) -> int:
    result: CursorResult[Any] = session.execute(statement)  # type: ignore[assignment]
    return result.rowcount


def _values(row: object, kind: type[Any]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in kind.__dataclass_fields__}


def _now() -> datetime:
    return datetime.now(UTC)


def _size_and_time(path: Path) -> tuple[int, int]:
    try:
        stat = path.stat()
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be read: {error.strerror}", hint="check the path after `file:`"
        ) from error
    return stat.st_size, stat.st_mtime_ns
