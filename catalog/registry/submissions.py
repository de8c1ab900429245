"""Surveys that were submitted to the service: what waits, what runs, and what became of each.

A submission that waits is taken by one process; see ``catalog.registry.claims``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import Table, insert, select, update

from catalog.registry.claims import Claims
from catalog.registry.rows import Submission, SubmissionState
from catalog.registry.tables import SUBMISSIONS, SURVEYS
from survey.errors import UnknownName

#: States of what is not over.
OPEN: tuple[SubmissionState, ...] = ("queued", "running")


@dataclass(frozen=True, slots=True)
class Submissions(Claims[Submission]):
    """The submitted surveys of a registry."""

    table: ClassVar[Table] = SUBMISSIONS
    row: ClassVar[type[Any]] = Submission
    waiting: ClassVar[str] = "queued"

    def add(
        self, survey_id: int, now: datetime, same: Sequence[SubmissionState] = OPEN
    ) -> Submission:
        """Submit a declared survey; one of it in these states is returned as it is."""
        new = insert(SUBMISSIONS).returning(SUBMISSIONS.c.id)
        with self.database.writing(SUBMISSIONS) as connection:
            known = select(SUBMISSIONS.c.id).where(
                SUBMISSIONS.c.survey_id == survey_id,
                SUBMISSIONS.c.state.in_(same),
                SUBMISSIONS.c.cancel_at.is_(None),
            )
            number = connection.execute(known).scalar()
            if number is None:
                values = {"survey_id": survey_id, "state": "queued", "submitted_at": now}
                added = new.values(**values, claim=0, losses=0)
                number = connection.execute(added).scalar_one()
        return self.named(number)

    def newest(self, most: int) -> list[Submission]:
        """Return so many of the newest submissions, the newest first."""
        newest = [SUBMISSIONS.c.id.desc()]
        return self.database.rows(Submission, SUBMISSIONS, order=newest, most=most)

    def open(self) -> list[Submission]:
        """Return the submissions that are not over, the oldest first."""
        order = [SUBMISSIONS.c.submitted_at, SUBMISSIONS.c.id]
        return self._rows(SUBMISSIONS.c.state.in_(OPEN), order=order)

    def named(self, number: int) -> Submission:
        """Return one submission.

        Raises
        ------
        UnknownName
            If there is none of that number.
        """
        for submission in self._rows(SUBMISSIONS.c.id == number, order=[SUBMISSIONS.c.id]):
            return submission
        known = (str(each.id) for each in self.newest(20))
        raise UnknownName("submitted survey", str(number), known)

    def survey(self, submission: Submission) -> tuple[str, dict[str, Any]]:
        """Return the name and the definition of the survey that a submission asks for."""
        wanted = select(SURVEYS.c.name, SURVEYS.c.definition)
        with self.database.transaction() as connection:
            found = connection.execute(wanted.where(SURVEYS.c.id == submission.survey_id)).one()
        return found.name, found.definition

    def cancel(self, submission: Submission, now: datetime) -> bool:
        """End a submission that waits, ask the run of one to stop; False if it is over."""
        waits = SUBMISSIONS.c.state == "queued"
        of_it = SUBMISSIONS.c.id == submission.id
        ended = {"state": "cancelled", "ended_at": now, "cancel_at": now, "reason": None}
        running = SUBMISSIONS.c.state == "running"
        return self._changes(
            update(SUBMISSIONS).where(of_it, waits).values(**ended)
        ) or self._changes(update(SUBMISSIONS).where(of_it, running).values(cancel_at=now))

    def retry(self, submission: Submission, now: datetime) -> bool:
        """Let a submission that is over wait again; False if it is not over."""
        over = SUBMISSIONS.c.state.not_in(OPEN)
        fresh = dict.fromkeys(
            (
                *("reason", "started_at", "ended_at", "cancel_at", "seconds"),
                *("measured", "failed", "skipped"),
            )
        )
        again = update(SUBMISSIONS).where(SUBMISSIONS.c.id == submission.id, over)
        return self._changes(again.values(**fresh, state="queued", submitted_at=now, losses=0))
