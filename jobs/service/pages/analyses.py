"""Pages about what was measured: overview, questions, a model, and a comparison of a few."""

from __future__ import annotations

from http import HTTPStatus
from itertools import islice
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from analysis.data.few_runs import curves_of, repeats_of, rows_of, run_named, run_of
from analysis.report.comparison_page import MOST_COMPARED
from analysis.report.model_page import NEIGHBOURS
from analysis.similarity.nearest_curves import nearest_curves
from catalog.home import Home
from jobs.service.dependencies import HomeOfService, RendererOfService
from jobs.service.pages.answers import QUESTIONS, Asked, Made, make, model_html
from jobs.service.pages.selections import selection_of
from jobs.service.pages.site import NAVIGATION, PageRoute, page_response
from jobs.service.problems import Refusal
from jobs.service.renderer import Renderer

router = APIRouter(route_class=PageRoute)

_TYPES = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "svg": "image/svg+xml",
    "sql": "text/plain",
}


class _Pages:
    """Answers requests for a page, and for files of its figures, from the same renderer."""

    def __init__(self, kind: str, name: str = "") -> None:
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
        asked = self._asked(request, home, renderer)
        return renderer.page(make, asked, quick=asked.rows is not None), asked.revision

    def _asked(self, request: Request, home: Home, renderer: Renderer) -> Asked:
        name = request.path_params.get("name", self._name)
        selection = selection_of(request.url.query)
        return Asked(home.path, renderer.revision(home), self._kind, selection, name)


class _RunPages(_Pages):
    """The same about a few runs, of whose rows alone they are made."""

    def _asked(self, request: Request, home: Home, _renderer: Renderer) -> Asked:
        ids = self._ids(request, home)
        rows = rows_of(home, ids) if ids else None
        return Asked(
            home.path,
            rows.version if rows else "",
            self._kind,
            selection_of(request.url.query),
            request.query_params.get("metric", self._name),
            ids,
            rows,
        )

    def _ids(self, request: Request, home: Home) -> tuple[str, ...]:
        return (run_named(home, request.path_params["run"]),)


class _Comparison(_RunPages):
    def _ids(self, request: Request, home: Home) -> tuple[str, ...]:
        # One more than may be compared is refused.
        named = dict.fromkeys(request.query_params.getlist("run"))
        return tuple(run_named(home, each) for each in islice(named, MOST_COMPARED + 1))


class _NearestModels(_RunPages):
    def _asked(self, request: Request, home: Home, renderer: Renderer) -> Asked:
        run = run_named(home, request.path_params["run"])
        near = renderer.compute(nearest_curves, curves_of(home), run, NEIGHBOURS)
        rows = rows_of(home, [run, *near])
        return Asked(home.path, rows.version, self._kind, runs=(run, *near), rows=rows)


class _Repeats(_RunPages):
    def _ids(self, request: Request, home: Home) -> tuple[str, ...]:
        return tuple(repeats_of(home, run_named(home, request.path_params["run"])))


@router.get("/models/{run}")
def model(request: Request, home: HomeOfService, run: str) -> Response:
    """Return the page of a run, or nothing new for who has it already."""
    one = run_of(home, run)
    tag = {"ETag": f'W/"{one.version}"'}
    if request.headers.get("if-none-match") == tag["ETag"]:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=tag)
    return HTMLResponse(model_html(one, selection_of(request.url.query)), headers=tag)


@router.get("/questions")
def questions(request: Request) -> Response:
    """Return the list of questions."""
    return page_response(request, "questions.html", NAVIGATION[4], questions=QUESTIONS)


@router.get("/questions/clusters")
def moved() -> Response:
    """Lead to the page of clusters, which is the map."""
    return RedirectResponse("/map", HTTPStatus.PERMANENT_REDIRECT)


def _add(path: str, pages: _Pages, page: str = "") -> None:
    """Add the routes of a page and of the files of its figures."""
    router.add_api_route(f"{path}{page}" or "/", pages.page)
    for folder in ("data", "figures"):
        router.add_api_route(f"{path}/{folder}/{{file}}", pages.file)


_add("", _Pages("overview"))
_add("/map", _Pages("question", "clusters"))
_add("/compare", _Comparison("comparison", "affinity"))
_add("/questions/{name}", _Pages("question"))
_add("/models/{run}", _RunPages("signature"), "/signature")
_add("/models/{run}/runs", _Repeats("runs"))
router.add_api_route("/models/{run}/nearest", _NearestModels("nearest").page)
