"""What all pages share: templates, navigation, addresses, and problems as pages."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from jinja2 import Environment
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException

from analysis.report.elements import Link
from analysis.report.templating import templates
from jobs.operations.server_paths import without_folders
from jobs.service.access.forms import FIELD, form_token
from jobs.service.problems import Problem, of_error, of_invalid, of_refusal
from survey.errors import SurveyError

#: The title of every page.
TITLE = "Model-zoo survey"

#: The pages that every page links to.
NAVIGATION = (
    OVERVIEW := Link("Overview", ""),
    MODELS := Link("Models", "models"),
    COMPARE := Link("Compare", "compare"),
    MAP := Link("Map", "map"),
    QUESTIONS := Link("Questions", "questions"),
    SCAN := Link("Scan", "scan"),
    SCHEDULES := Link("Schedules", "schedules"),
    SQL := Link("SQL", "sql"),
)

#: Pages of a report that have another address here.
_MOVED = {"index": "", "clusters": "map"}

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Addresses:
    """The addresses in a page, by their places in a report, such as ``clusters.html``.

    Parameters
    ----------
    page : str
        The place of the page itself, to which the files of its figures belong.
    query : str
        The part of an address behind its question mark that pages of a selection share.
    file_query : str
        What the addresses of files of its figures have beside it.
    """

    page: str
    query: str = ""
    file_query: str = ""

    def __call__(self, place: str) -> str:
        """Return the address of a page, of a file of this page, or of an asset."""
        if place.startswith("assets/"):
            return f"/{place}"
        if place.startswith(("data/", "figures/")):
            return _with_query(f"{self.page}/{place}".lstrip("/"), self.query, self.file_query)
        name, ending, _ = place.partition(".html")
        if ending and "/" not in name:
            name = _MOVED.get(name, f"questions/{name}")
        return _with_query(name, self.query if ending else "")


def _with_query(path: str, *queries: str) -> str:
    query = "&".join(filter(None, queries))
    return f"/{path}?{query}" if query else f"/{path}"


@cache
def layout() -> Environment:
    """Return the templates of all pages."""
    environment = templates(_HERE / "templates")
    environment.globals["site"] = {"title": TITLE, "pages": NAVIGATION, "live": True}
    environment.globals["form_field"] = FIELD
    environment.filters["bare"] = without_folders
    return environment


def rendered(template: str, link: Link, at: Addresses | None = None, **values: Any) -> str:
    """Return a page as HTML.

    Parameters
    ----------
    template : str
        The file of its template.
    link : Link
        Its title, and its place among the pages.
    at : Addresses, optional
        Those of a page about a selection.
    **values
        What the template takes.
    """
    shared = {"link": link, "at": at or Addresses(link.address), "lacking": (), "exhibits": ()}
    return layout().get_template(template).render({**shared, **values})


def page_response(
    request: Request, template: str, link: Link, problem: Problem | None = None, **values: Any
) -> HTMLResponse:
    """Return a page whose forms this caller may send, with the status of its problem."""
    values |= {"problem": problem, "form_token": form_token(request)}
    status = problem.status if problem else HTTPStatus.OK
    return HTMLResponse(rendered(template, link, **values), status)


class PageRoute(APIRoute):
    """A route whose problems are pages too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what answers a request."""
        answer = super().get_route_handler()

        async def answer_or_explain(request: Request) -> Response:
            try:
                return await answer(request)
            except SurveyError as error:
                roots = (request.app.state.settings.home.path,)
                return await self.explained(request, of_error(error, request, roots))
            except HTTPException as refusal:
                return problem_page(request, of_refusal(refusal), refusal.headers)
            except RequestValidationError as invalid:
                return await self.explained(request, of_invalid(invalid))

        return answer_or_explain

    async def explained(self, request: Request, problem: Problem) -> Response:
        """Return the page of a problem with what was sent."""
        return problem_page(request, problem)


def form_route(page: Callable[[Request, FormData, Problem], Response]) -> type[PageRoute]:
    """Return the class of a form's route: its problems are on the form's page, as it was sent."""

    class FormRoute(PageRoute):
        async def explained(self, request: Request, problem: Problem) -> Response:
            return await run_in_threadpool(page, request, await request.form(), problem)

    return FormRoute


def problem_page(
    request: Request, problem: Problem, headers: Mapping[str, str] | None = None
) -> HTMLResponse:
    """Return the page of a problem."""
    link = Link(problem.title, request.url.path.strip("/"))
    page = page_response(request, "problem.html", link, problem)
    page.headers.update(headers or {})
    return page
