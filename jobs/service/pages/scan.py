"""The page of the scan: submit a survey, watch it live, and what became of those before it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, Field

from catalog.bounds import parse_toml
from catalog.home import Home
from catalog.registry.registry import Registry
from catalog.tags import LONGEST
from jobs.operations.control import find_job
from jobs.operations.server_paths import without_paths
from jobs.operations.watch import look_at
from jobs.operations.watch_screen import scan_facts, state_line
from jobs.scan.scan_progress import WorkerProgress
from jobs.service import submissions
from jobs.service.api.surveys import Number, definition_from
from jobs.service.dependencies import HomeOfService, RegistryOfService, SettingsOfService
from jobs.service.driver_state import driver_state
from jobs.service.pages import site
from jobs.service.pages.site import PageRoute, form_route, page_response
from jobs.service.problems import Problem
from survey.errors import SettingsError

router = APIRouter(route_class=PageRoute, prefix="/scan")

# The files of a traceback, from their package on.
_BELOW_PACKAGES = re.compile(r'File "[^"]*/(?:site-packages|dist-packages|python3\.\d+)/([^"]*)"')

#: Submitted surveys that the page lists.
_LISTED = 20


class SurveyForm(BaseModel):
    """The fields of a form that declares a survey."""

    form_token: str
    models: str = Field("", max_length=10_000)
    checkpoints: str = Field("", max_length=10_000)
    dataset: str = Field("", max_length=1000)
    images_per_score: str = Field("", max_length=20)
    #: The text of a survey file, which goes before the other fields.
    survey: str = Field("", max_length=1 << 19)

    def tables(self) -> dict[str, Any]:
        """Return the tables of a survey file that the fields are short for.

        Raises
        ------
        SettingsError
            If the text is not TOML, or there is neither a text nor a model.
        """
        if self.survey.strip():
            return _parsed(self.survey)
        names = self.models.split()
        if not names:
            raise SettingsError("no model is named", hint="name some, such as small:digits_*")
        weights = {"checkpoints": given} if (given := self.checkpoints.split()) else {}
        models = [{"name": name, **weights} for name in names]
        tables: dict[str, Any] = {"name": names[0][:LONGEST], "models": models}
        if dataset := self.dataset.strip():
            tables["datasets"] = [{"name": dataset}]
        if number := self.images_per_score.strip():
            given_number = int(number) if number.isdecimal() else number
            tables["settings"] = {"images_per_score": given_number}
        return tables


@router.get("")
def show(request: Request) -> Response:
    """Return how far the scan is, what was submitted, and a form for more."""
    return _page(request, request.query_params)


def _page(request: Request, given: Mapping[str, Any], problem: Problem | None = None) -> Response:
    state = request.app.state
    values = {"given": given, **_values(state.settings.home, state.registry)}
    return page_response(request, "scan.html", site.SCAN, problem, **values)


def submit(
    form: Annotated[SurveyForm, Form()], settings: SettingsOfService, registry: RegistryOfService
) -> Response:
    """Submit a survey."""
    submissions.submit(registry, definition_from(form.tables(), settings))
    return _back()


router.add_api_route("/surveys", submit, methods=["POST"], route_class_override=form_route(_page))


@router.get("/surveys")
def submitted() -> Response:
    """Lead to the page: a refused form leaves a reader at this address."""
    return _back()


@router.post("/surveys/{number}/cancel")
def cancel(number: Number, home: HomeOfService, registry: RegistryOfService) -> Response:
    """Cancel a survey that is not over."""
    submissions.cancel(home, registry, registry.submissions.named(number))
    return _back()


@router.post("/surveys/{number}/retry")
def retry(number: Number, registry: RegistryOfService) -> Response:
    """Run a survey again that is over."""
    submissions.retry(registry, registry.submissions.named(number))
    return _back()


@router.post("/jobs/{run_id}/retry")
def retry_job(run_id: str, home: HomeOfService, registry: RegistryOfService) -> Response:
    """Run a job again that failed."""
    submissions.retry_job(home, registry, find_job(home, run_id))
    return _back()


def _back() -> Response:
    return RedirectResponse("/scan", HTTPStatus.SEE_OTHER)


def _parsed(text: str) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except ValueError as error:
        raise SettingsError(
            f"the survey is not TOML: {error}", hint="docs/survey-file.md has an example"
        ) from None


def _values(home: Home, registry: Registry) -> dict[str, Any]:
    look = look_at(home)
    failed = [job for job in registry.overview() if job.state in ("failed", "parked")]
    return {
        "driver": driver_state(home),
        "state": state_line(look),
        "progress": None if look.state == "waiting" else look.progress,
        "running": look.state == "running",
        "under_way": [] if look.progress is None else _by_job(look.progress.working),
        "facts": [] if look.progress is None else scan_facts(look, look.progress),
        "submissions": [
            (each, registry.submissions.survey(each)[0])
            for each in registry.submissions.newest(_LISTED)
        ],
        "failed": [(job, _traceback(registry, job.key)) for job in failed[:_LISTED]],
    }


def _by_job(working: Iterable[WorkerProgress]) -> list[list[WorkerProgress]]:
    """Return the workers of each job, and those that have none."""
    jobs: dict[str | None, list[WorkerProgress]] = {}
    for each in working:
        jobs.setdefault(each.run_id, []).append(each)
    return list(jobs.values())


def _traceback(registry: Registry, job_key: str) -> str | None:
    """Return where the newest attempt at a job failed, its files named below their packages."""
    text = next((each.traceback for each in reversed(registry.attempts.of(job_key))), None)
    return text and without_paths(_BELOW_PACKAGES.sub(r'File "\1"', text))
