"""Pages about what was measured: overview, questions, a model, and a comparison of a few."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from catalog.home import Home
from jobs.service.dependencies import HomeOfService
from jobs.service.pages.answers import QUESTIONS, Asked, Made
from jobs.service.pages.renderer import Renderer
from jobs.service.pages.selections import selection_of
from jobs.service.pages.site import NAVIGATION, PageRoute, page_response
from jobs.service.problems import Refusal

router = APIRouter(route_class=PageRoute)

_TYPES = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "svg": "image/svg+xml",
    "sql": "text/plain",
}


def _renderer(request: Request) -> Renderer:
    renderer: Renderer = request.app.state.renderer
    return renderer


RendererOfService = Annotated[Renderer, Depends(_renderer)]


class _Pages:
    """Answers requests for a page, and for files of its figures, from the same renderer."""

    def __init__(self, kind: str, name: str) -> None:
        self._kind, self._name = kind, name

    def page(self, request: Request, home: HomeOfService, renderer: RendererOfService) -> Response:
        """Return the page, or nothing new for who has it already."""
        made, version = self._made(request, home, renderer)
        tag = {"ETag": f'W/"{version}"'}
        if request.headers.get("if-none-match") == tag["ETag"]:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=tag)
        return HTMLResponse(made.html, headers=tag)

    def file(self, request: Request, home: HomeOfService, renderer: RendererOfService) -> Response:
        """Return a file of the page's figures."""
        made, _ = self._made(request, home, renderer)
        name = request.path_params["file"]
        folder = request.url.path.split("/")[-2]
        content = made.files.get(f"{folder}/{name}")
        if content is None:
            raise Refusal(HTTPStatus.NOT_FOUND, f"the page has no file {name!r}")
        headers = {"Content-Disposition": f'inline; filename="{quote(name)}"'}
        return Response(content, media_type=_TYPES[name.rpartition(".")[2]], headers=headers)

    def _made(self, request: Request, home: Home, renderer: Renderer) -> tuple[Made, str]:
        version = renderer.revision(home)
        query = request.url.query
        asked = Asked(
            home.path,
            version,
            self._kind,
            selection_of(query),
            request.path_params.get("name") or request.query_params.get("metric", self._name),
            tuple(dict.fromkeys(request.query_params.getlist("run"))),
        )
        return renderer.page(asked), version


@router.get("/questions")
def questions(request: Request) -> Response:
    """Return the list of questions."""
    return page_response(request, "questions.html", NAVIGATION[4], questions=QUESTIONS)


@router.get("/questions/clusters")
def moved() -> Response:
    """Lead to the page of clusters, which is the map."""
    return RedirectResponse("/map", HTTPStatus.PERMANENT_REDIRECT)


def _add(path: str, kind: str, name: str = "") -> None:
    """Add the routes of a page and of the files of its figures."""
    pages = _Pages(kind, name)
    router.add_api_route(path or "/", pages.page)
    for folder in ("data", "figures"):
        router.add_api_route(f"{path}/{folder}/{{file}}", pages.file)


_add("", "overview")
_add("/map", "question", "clusters")
_add("/compare", "comparison")
_add("/questions/{name}", "question")
_add("/models/{name}", "model")
