"""The page of schedules: what is due, what became of it, what moved since, and a form for more."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from jobs.schedules.removal import remove_schedule
from jobs.service.api import schedules as api
from jobs.service.dependencies import RegistryOfService, SettingsOfService
from jobs.service.pages import site
from jobs.service.pages.scan import SurveyForm
from jobs.service.pages.site import PageRoute, form_route, page_response
from jobs.service.problems import Problem

router = APIRouter(route_class=PageRoute, prefix="/schedules")

#: Due times of a schedule, and events, that the page lists.
_TICKS, _EVENTS = 5, 20


@router.get("")
def show(request: Request) -> Response:
    """Return the schedules, their last due times, and the events that followed."""
    return _page(request, request.query_params)


def _page(request: Request, given: Mapping[str, Any], problem: Problem | None = None) -> Response:
    registry = request.app.state.registry
    shown = [api.show(each.name, registry, _TICKS) for each in registry.schedules.all()]
    events = registry.events.latest(_EVENTS)
    values: dict[str, Any] = {"schedules": shown, "events": events, "given": given}
    return page_response(request, "schedules.html", site.SCHEDULES, problem, **values)


class ScheduleForm(SurveyForm, api.NamedTimes):
    """The fields of a form that adds a schedule."""


def add(
    form: Annotated[ScheduleForm, Form()], settings: SettingsOfService, registry: RegistryOfService
) -> Response:
    """Add a schedule of a survey."""
    new = api.NewSchedule(
        name=form.name, survey=form.tables(), cron=form.cron, timezone=form.timezone
    )
    api.add(new, settings, registry)
    return _back()


router.add_api_route("", add, methods=["POST"], route_class_override=form_route(_page))


@router.post("/{name}/pause")
def pause(name: str, registry: RegistryOfService) -> Response:
    """Pause a schedule."""
    api.pause(name, registry)
    return _back()


@router.post("/{name}/resume")
def resume(name: str, registry: RegistryOfService) -> Response:
    """Resume a schedule."""
    api.resume(name, registry)
    return _back()


@router.post("/{name}/remove")
def remove(name: str, registry: RegistryOfService) -> Response:
    """Remove a schedule that does not run."""
    remove_schedule(registry.schedules, name, datetime.now(UTC))
    return _back()


def _back() -> Response:
    return RedirectResponse("/schedules", HTTPStatus.SEE_OTHER)
