"""What routes are given: the service's settings, its home, its registry, and the caller."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request

from catalog.home import Home
from catalog.registry.registry import Registry
from jobs.service.access.callers import Caller
from jobs.service.queries import Queries
from jobs.service.recent_answers import RecentAnswers
from jobs.service.renderer import Renderer
from jobs.service.settings import ServiceSettings


def _shared(name: str) -> Any:
    """Return what gives a request something that all requests share."""

    def given(request: Request) -> Any:
        return getattr(request.app.state, name)

    return Depends(given)


def _home(request: Request) -> Home:
    home: Home = request.app.state.settings.home
    return home


def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


SettingsOfService = Annotated[ServiceSettings, _shared("settings")]
QueriesOfService = Annotated[Queries, _shared("queries")]
RendererOfService = Annotated[Renderer, _shared("renderer")]
RecentAnswersOfService = Annotated[RecentAnswers, _shared("recent_answers")]
HomeOfService = Annotated[Home, Depends(_home)]
#: One for all requests; threads may share it.
RegistryOfService = Annotated[Registry, _shared("registry")]
CallerOfRequest = Annotated[Caller, Depends(_caller)]
