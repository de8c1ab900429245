"""The application: its routers, its guard, and what they share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, Depends, FastAPI
from starlette.types import ASGIApp

from catalog.registry.registry import Registry
from jobs.service import API, health, mcp
from jobs.service.access.callers import Callers
from jobs.service.access.forms import require_form_token
from jobs.service.access.guard import Guard
from jobs.service.api import (
    events,
    lists,
    progress,
    queries,
    questions,
    report,
    saved_queries,
    schedules,
    sql,
    status,
    surveys,
)
from jobs.service.first_copy import FirstCopy
from jobs.service.pages import routes as pages
from jobs.service.pages.site import problem_page
from jobs.service.problems import RESPONSES, explain_errors
from jobs.service.queries import Queries
from jobs.service.recent_answers import RecentAnswers
from jobs.service.renderer import Renderer
from jobs.service.settings import ServiceSettings
from jobs.service.store_turns import store_turns
from survey import __version__

#: The routers below ``/api/v1``, one a module of ``jobs.service.api``.
API_ROUTERS: tuple[APIRouter, ...] = (
    # Before the list of events, of whose address the feed's is one with an unknown ending.
    events.router,
    *lists.ROUTERS,
    questions.router,
    report.router,
    saved_queries.router,
    queries.router,
    sql.router,
    surveys.router,
    schedules.router,
    progress.router,
    status.router,
)


class _GuardedApplication(FastAPI):
    """An application behind its guard."""

    def build_middleware_stack(self) -> ASGIApp:
        """Return what answers requests; the guard is before everything else."""
        settings, registry = self.state.settings, self.state.registry
        return Guard(super().build_middleware_stack(), settings, Callers(settings, registry.tokens))


def make_application(settings: ServiceSettings) -> FastAPI:
    """Return the application of a service.

    Parameters
    ----------
    settings : ServiceSettings
        Its home is open and of this program's version.
    """
    app = _GuardedApplication(
        title="model-zoo survey",
        version=__version__,
        openapi_url=f"{API}/openapi.json",
        # Their pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        max_body_size=settings.most_body_bytes,
        telemetry={"tracing": False, "metrics": False, "logs": False},
        responses=RESPONSES,
        lifespan=_lifespan,
    )
    app.state.settings, app.state.registry = settings, Registry(settings.home)
    #: Whether streams are to end.
    app.state.stopping = False
    app.state.queries = Queries(settings.home, settings.sql)
    app.state.renderer, app.state.first_copy = Renderer(), FirstCopy()
    app.state.recent_answers = RecentAnswers(app.state.renderer)
    app.state.store_turns = store_turns()
    explain_errors(app, (settings.home.path, *settings.allowed), problem_page)
    app.include_router(health.router)
    app.include_router(mcp.router)
    for router in API_ROUTERS:
        app.include_router(router, prefix=API)
    for router in pages.ROUTERS:
        app.include_router(
            router, dependencies=[Depends(require_form_token)], include_in_schema=False
        )
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    app.state.queries.close()
    app.state.renderer.close()
    app.state.registry.close()
