"""Surveys over HTTP: submitted, shown, cancelled and retried."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Body
from pydantic import BaseModel, Field

from catalog.registry.registry import Registry
from catalog.registry.rows import Submission, SubmissionState
from jobs.operations.control import find_job, move_jobs
from jobs.operations.server_paths import without_folders
from jobs.planning.allowed_files import require_allowed
from jobs.planning.definition import Definition, parse_definition, require_expected
from jobs.service import submissions
from jobs.service.dependencies import HomeOfService, RegistryOfService, SettingsOfService
from jobs.service.settings import ServiceSettings

router = APIRouter(tags=["surveys"])

#: The largest number of a row that the registry holds.
LARGEST = 2**31 - 1

#: The name of a survey that has none.
UNNAMED = "submitted"

Number = Annotated[int, Field(ge=1, le=LARGEST)]

#: A survey as a survey file has it, with its tables as JSON.
SurveyTables = Annotated[
    dict[str, Any],
    Body(
        description="A survey file's keys and tables as JSON (docs/survey-file.md): models,"
        " datasets, settings, remeasure, measures, tags; name is what it is called.",
        examples=[
            {
                "name": "zoo",
                "models": [{"name": "small:digits_*", "checkpoints": ["bundled", "init:0"]}],
                "datasets": [{"name": "digits"}],
                "settings": {"images_per_score": 128},
            }
        ],
    ),
]


class SubmittedSurvey(BaseModel):
    """A submitted survey and where it stands."""

    id: int
    name: str
    #: queued, running, done, failed or cancelled; whether a running one was asked to stop.
    state: SubmissionState
    cancelling: bool
    #: Why it waits, failed or was cancelled; or how many cancelled jobs it left out.
    reason: str | None
    submitted_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    #: Jobs measured, failed, and measured before; None before its end.
    measured: int | None
    failed: int | None
    skipped: int | None
    seconds: float | None
    #: Its tables, as a survey file has them.
    definition: dict[str, Any]


@router.post("/surveys", status_code=HTTPStatus.CREATED)
def submit(
    survey: SurveyTables, settings: SettingsOfService, registry: RegistryOfService
) -> SubmittedSurvey:
    """Submit a survey: it is run once those before it are over, and measures only what is new."""
    definition = definition_from(survey, settings)
    return shown(registry, submissions.submit(registry, definition))


@router.get("/surveys/{number}")
def show(number: Number, registry: RegistryOfService) -> SubmittedSurvey:
    """Return a submitted survey."""
    return shown(registry, registry.submissions.named(number))


@router.post("/surveys/{number}/cancel")
def cancel(number: Number, home: HomeOfService, registry: RegistryOfService) -> SubmittedSurvey:
    """Cancel a survey that is not over: its jobs stop within seconds, what is measured stays."""
    submissions.cancel(home, registry, registry.submissions.named(number))
    return shown(registry, registry.submissions.named(number))


@router.post("/surveys/{number}/retry")
def retry(number: Number, registry: RegistryOfService) -> SubmittedSurvey:
    """Run a survey that is over again, with its jobs that failed, were parked or cancelled."""
    submissions.retry(registry, registry.submissions.named(number))
    return shown(registry, registry.submissions.named(number))


@router.post("/jobs/{run_id}/retry")
def retry_job(run_id: str, home: HomeOfService, registry: RegistryOfService) -> SubmittedSurvey:
    """Run a job again that failed, was parked or cancelled, with what its survey lacks."""
    return shown(registry, submissions.retry_job(home, registry, find_job(home, run_id)))


@router.post("/jobs/{run_id}/cancel", status_code=HTTPStatus.NO_CONTENT)
def cancel_job(run_id: str, home: HomeOfService) -> None:
    """Cancel a job that is not over."""
    move_jobs(home, "cancelled", [find_job(home, run_id)])


def definition_from(survey: dict[str, Any], settings: ServiceSettings) -> Definition:
    """Return the survey that tables from elsewhere declare.

    Raises
    ------
    SettingsError
        If a key or value, or a place of a file, is not allowed.
    UnknownName
        If an accuracy is expected on a dataset that the survey does not have.
    UntrustedCode
        If it names code.
    """
    # Relative paths name nothing that is allowed.
    definition = parse_definition(survey, UNNAMED, Path("/"))
    require_expected(definition)
    return require_allowed(definition, settings.allowed)


def shown(registry: Registry, submission: Submission) -> SubmittedSurvey:
    """Return a submission as the API shows it."""
    name, stored = registry.submissions.survey(submission)
    fields = {
        each: getattr(submission, each)
        for each in SubmittedSurvey.model_fields
        if hasattr(submission, each)
    }
    definition = without_folders({k: v for k, v in stored.items() if k != "base"})
    fields["reason"] = without_folders(submission.reason)
    cancelling = submission.state == "running" and submission.cancel_at is not None
    return SubmittedSurvey(**fields, name=name, definition=definition, cancelling=cancelling)
