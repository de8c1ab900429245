"""What routes are given: the service's settings, its home, its registry, and the caller."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from catalog.home import Home
from catalog.registry.registry import Registry
from jobs.service.access.callers import Caller
from jobs.service.queries import Queries
from jobs.service.recent_answers import RecentAnswers
from jobs.service.renderer import Renderer
from jobs.service.settings import ServiceSettings


def _settings(request: Request) -> ServiceSettings:
    settings: ServiceSettings = request.app.state.settings
    return settings


def _home(request: Request) -> Home:
    return _settings(request).home


def _registry(request: Request) -> Registry:
    registry: Registry = request.app.state.registry
    return registry


def _caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


def _queries(request: Request) -> Queries:
    queries: Queries = request.app.state.queries
    return queries


def _renderer(request: Request) -> Renderer:
    renderer: Renderer = request.app.state.renderer
    return renderer


def _recent_answers(request: Request) -> RecentAnswers:
    recent_answers: RecentAnswers = request.app.state.recent_answers
    return recent_answers


SettingsOfService = Annotated[ServiceSettings, Depends(_settings)]
QueriesOfService = Annotated[Queries, Depends(_queries)]
RendererOfService = Annotated[Renderer, Depends(_renderer)]
RecentAnswersOfService = Annotated[RecentAnswers, Depends(_recent_answers)]
HomeOfService = Annotated[Home, Depends(_home)]
#: One for all requests; threads may share it.
RegistryOfService = Annotated[Registry, Depends(_registry)]
CallerOfRequest = Annotated[Caller, Depends(_caller)]
