"""Surveys that are submitted, cancelled and retried; and the run of the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from catalog.home import Home
from catalog.registry.claims import Settlement
from catalog.registry.registry import Registry
from catalog.registry.rows import JobRow, Submission
from catalog.registry.submissions import Submissions
from catalog.store.reader import run_states
from jobs.operations.control import move_jobs
from jobs.planning.allowed_files import FolderNotAllowed, require_allowed
from jobs.planning.definition import Definition
from jobs.planning.targets import require_names
from jobs.run import declared
from jobs.runners.base import Runner
from jobs.runners.options import Limits
from jobs.scan.reporter import Reporter
from jobs.schedules.claimed_run import ClaimedRun, Ended, Pace, abandoned, take, utc_now
from jobs.schedules.cron import definition_of as scheduled
from jobs.schedules.cron import recorded_definition
from jobs.schedules.process import is_gone
from survey.errors import SettingsError, SurveyError

#: Whether a survey was cancelled is looked at with every renewal of its lease.
_PACE = Pace(beat=2.0)

_CANCELLED = Settlement("cancelled")


def submit(registry: Registry, definition: Definition) -> Submission:
    """Let the driver run a survey.

    Raises
    ------
    UnknownName, CatalogError, SettingsError
        If it names what nobody has.
    """
    require_names(definition)
    survey_id = registry.record_survey(definition.name, declared(definition))
    return registry.submissions.add(survey_id, datetime.now(UTC))


def retry_job(home: Home, registry: Registry, job: JobRow) -> Submission:
    """Let a job run again, with what else its survey lacks.

    Raises
    ------
    SettingsError
        If it did not fail, and was not parked or cancelled; or no survey asks for it any more.
    """
    survey_id = registry.survey_of(job.key)
    if survey_id is None:
        raise SettingsError(f"no survey asks for run {job.run_id}", hint="submit one that does")
    move_jobs(home, "todo", [job])
    # A run that has begun has its plan, and would leave the job where it is.
    return registry.submissions.add(survey_id, datetime.now(UTC), same=("queued",))


def cancel(home: Home, registry: Registry, submission: Submission) -> None:
    """Cancel a submission and those of its jobs that are not over, as ``survey cancel`` does.

    Raises
    ------
    SettingsError
        If it is over.
    """
    if not registry.submissions.cancel(submission, datetime.now(UTC)):
        raise SettingsError(
            f"survey {submission.id} is over", hint="what is measured stays: survey show shows it"
        )
    cancel_jobs(home, registry, submission)


def cancel_jobs(home: Home, registry: Registry, submission: Submission) -> None:
    """Cancel the jobs of a submission that are not over; a scan stops them within seconds.

    Those that another open submission or a due time that has begun asks for, as far as it was
    planned, stay as they are.
    """
    going_on = (each for each in registry.submissions.open() if each.cancel_at is None)
    others = {each.survey_id for each in going_on if each.id != submission.id}
    others.update(_due_surveys(registry))
    shared = {job.key for survey_id in others for job in registry.jobs(survey_id)}
    # Rows come before the registry: a scan killed in between has done the job all the same.
    done = {run_id for run_id, state in run_states(home).items() if state.status == "done"}
    jobs = registry.jobs(submission.survey_id)
    keys = [job.key for job in jobs if job.run_id not in done and job.key not in shared]
    registry.set_states(keys, "cancelled", ("todo", "running"))


def _due_surveys(registry: Registry) -> Iterator[int]:
    """Yield the surveys of due times that have begun and are not over."""
    for schedule in registry.schedules.all():
        ticks = registry.schedules.open_ticks(schedule)
        if any(each.started_at and each.cancel_at is None for each in ticks):
            # Of one that cannot be read nothing was planned.
            with suppress(SurveyError):
                definition = scheduled(schedule)
                yield registry.record_survey(definition.name, declared(definition))


def retry(registry: Registry, submission: Submission) -> None:
    """Let a submission that is over run again, with its jobs that failed or were cancelled.

    Raises
    ------
    SettingsError
        If it is not over.
    """
    keys = [job.key for job in registry.jobs(submission.survey_id)]
    if not registry.submissions.retry(submission, datetime.now(UTC)):
        raise SettingsError(
            f"survey {submission.id} is {submission.state}", hint="only what is over is retried"
        )
    registry.set_states(keys, "todo", ("failed", "parked", "cancelled"))


def next_submission(
    submissions: Submissions,
    now: datetime,
    passed_over: Callable[[Submission], bool] = lambda _: False,
) -> Submission | None:
    """Return the submission that waits longest; settle those that are given up.

    Parameters
    ----------
    submissions : Submissions
        The submissions.
    now : datetime
        The moment.
    passed_over : callable
        Whether one that could be run is left to another process.
    """
    for submission in submissions.open():
        named = partial(_named, submissions, submission)
        if submission.state == "queued" or abandoned(
            submissions, submission, now, _CANCELLED, named
        ):
            if passed_over(submission):
                continue
            return submission
        if not is_gone(submission, now):
            # Another process runs it, and no other can write to the home.
            return None
    return None


def _named(submissions: Submissions, submission: Submission) -> tuple[str, str]:
    """Return what the events of a submission call it, and what tells them from those of others."""
    moment = f"{submission.submitted_at:%Y-%m-%d %H:%M:%S.%f} UTC"
    title = title_of(submission, submissions.survey(submission)[0])
    return title, f"survey {submission.id}, submitted {moment}"


def leave_to_others(
    submissions: Submissions, submission: Submission, allowed: Sequence[Path]
) -> str | None:
    """Leave a submission that names files outside some folders waiting; return the reason, if so.

    The service that it was submitted to, or that runs next, may allow their folders.
    """
    name, stored = submissions.survey(submission)
    try:
        require_allowed(definition_of(name, stored), allowed)
    except FolderNotAllowed as error:
        if (submission.state, submission.reason) != ("queued", error.message):
            submissions.leave(submission, error.message)
        return error.message
    except Exception:  # noqa: BLE001 - no service may run it: its run settles it as failed
        return None
    return None


def title_of(submission: Submission, name: str) -> str:
    """Return what messages and events call a submission."""
    return f"survey {submission.id} ({name})"


def run_submission(
    home: Home,
    registry: Registry,
    submission: Submission,
    make_runner: Callable[[], Runner],
    reporter: Reporter,
    *,
    allowed: Sequence[Path] = (),
    offline: bool = False,
    limits: Limits | None = None,
) -> Ended[Submission] | None:
    """Run a submission, unless another process takes it first.

    Parameters
    ----------
    home : Home
        The home.
    registry : Registry
        Its registry.
    submission : Submission
        What waits, or was left by a process that is gone.
    make_runner : callable
        Makes its runner.
    reporter : Reporter
        Shows the progress.
    allowed : sequence of Path
        Folders below which the files lie that it may name.
    offline : bool
        Whether to fetch nothing.
    limits : Limits, optional
        What jobs are allowed.
    """
    submissions = registry.submissions
    runner = make_runner()
    taken = take(submissions, submission, utc_now(), _PACE)
    if taken is None:
        return None
    name, stored = submissions.survey(taken)

    def definition() -> Definition:
        # Links may have changed since it was submitted.
        return require_allowed(definition_of(name, stored), allowed)

    title, cause = _named(submissions, taken)
    run = ClaimedRun(
        home=home,
        claims=submissions,
        row=taken,
        title=title,
        cause=cause,
        definition=definition,
        stopped=_CANCELLED,
        now=utc_now,
        pace=_PACE,
    )
    ended = run.carry_out(runner, reporter, offline=offline, limits=limits)
    if ended.row.state == "cancelled":
        # Its jobs may have been planned after it was cancelled.
        cancel_jobs(home, registry, taken)
    return ended


def definition_of(name: str, stored: dict[str, Any]) -> Definition:
    """Return a survey from its record in the registry."""
    base = Path(stored["base"])
    return recorded_definition({k: v for k, v in stored.items() if k != "base"}, name, base)
