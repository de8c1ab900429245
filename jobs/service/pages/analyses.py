"""Pages about what was measured: overview, questions, a model, and a comparison of a few."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from itertools import islice
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse

from analysis.data.few_runs import curves_of, repeats_of, rows_of, run_named, run_of
from analysis.report.comparison_page import MOST_COMPARED
from analysis.report.model_page import NEIGHBOURS
from analysis.similarity.nearest_curves import nearest_curves
from catalog.home import Home
from jobs.service.dependencies import HomeOfService, RecentAnswersOfService, RendererOfService
from jobs.service.first_copy import first_copy_made, require_first_copy
from jobs.service.pages import site
from jobs.service.pages.answers import Made, make, make_data
from jobs.service.pages.asked import Asked
from jobs.service.pages.options import Given, option_names, option_values, options_in
from jobs.service.pages.questions import QUESTIONS, unanswered, with_options
from jobs.service.pages.runs import model_html
from jobs.service.pages.selections import selection_of
from jobs.service.pages.site import PageRoute, page_response, problem_page
from jobs.service.problems import Problem, Refusal
from jobs.service.recent_answers import RecentAnswers, age_header, minute_of
from jobs.service.renderer import Renderer
from survey import __version__

router = APIRouter(route_class=PageRoute)

#: What pages do while the first copy of a home is made, and what their files do.
_SAYS, _WAITS = [Depends(require_first_copy)], [Depends(first_copy_made)]

_TYPES = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "svg": "image/svg+xml",
    "sql": "text/plain",
}


class _Pages:
    """Answers requests for a page, and for files of its figures."""

    def __init__(self, kind: str, name: str = "") -> None:
        self._kind, self._name = kind, name

    async def page(
        self,
        request: Request,
        home: HomeOfService,
        renderer: RendererOfService,
        recent: RecentAnswersOfService,
    ) -> Response:
        """Return the page, or nothing new for who has it already."""
        asked = await self._asked(request, home, renderer)
        made, headers = await _of(request, renderer, recent, make, asked)
        headers["ETag"] = _tag(made.revision + minute_of(dict(asked.options)))
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return HTMLResponse(made.html, headers=headers)

    async def file(
        self,
        request: Request,
        home: HomeOfService,
        renderer: RendererOfService,
        recent: RecentAnswersOfService,
    ) -> Response:
        """Return a file of the page's figures."""
        asked = await self._asked(request, home, renderer)
        folder, name = request.url.path.split("/")[-2], request.path_params["file"]
        function = make_data if folder == "data" else make
        made, headers = await _of(request, renderer, recent, function, asked)
        content = made.files.get(f"{folder}/{name}")
        if content is None:
            raise Refusal(HTTPStatus.NOT_FOUND, f"the page has no file {name!r}")
        headers["Content-Disposition"] = f'inline; filename="{quote(name)}"'
        return Response(content, media_type=_TYPES[name.rpartition(".")[2]], headers=headers)

    async def _asked(self, request: Request, home: Home, renderer: Renderer) -> Asked:
        name = request.path_params.get("name", self._name)
        query = request.url.query
        options: Given = ()
        declared = with_options(name)
        if declared:
            options = options_in(query, declared)
            # Refused before it waits for others.
            option_values(declared, options)
        selection = selection_of(query, option_names(declared) if declared else ())
        revision = await run_in_threadpool(renderer.revision, home)
        return Asked(home.path, revision, self._kind, selection, name, options=options)


def _tag(revision: str) -> str:
    """Return the tag of a page: another one for other rows, and for another program's page."""
    return f'W/"{__version__}-{revision}"'


async def _of(
    request: Request,
    renderer: Renderer,
    recent: RecentAnswers,
    function: Callable[[Asked], Made],
    asked: Asked,
) -> tuple[Made, dict[str, str]]:
    """Return what a function makes of a page, and the header of its age if it is a recent one."""
    if asked.rows is not None:
        return await renderer.page(function, asked), {}
    key = function, replace(asked, revision=""), minute_of(dict(asked.options))
    compute = partial(function, asked)
    made, age = await recent.answer(request, compute, key, asked.revision, Made.size)
    return made, age_header(age)


class _RunPages(_Pages):
    """The same about a few runs, of whose rows alone they are made."""

    async def _asked(self, request: Request, home: Home, renderer: Renderer) -> Asked:
        ids = await self._ids(request, home, renderer)
        rows = await run_in_threadpool(rows_of, home, ids) if ids else None
        return Asked(
            home.path,
            rows.version if rows else "",
            self._kind,
            selection_of(request.url.query),
            request.query_params.get("metric", self._name),
            ids,
            rows,
        )

    async def _ids(self, request: Request, home: Home, _renderer: Renderer) -> tuple[str, ...]:
        return (await run_in_threadpool(run_named, home, request.path_params["run"]),)


class _Comparison(_RunPages):
    async def _ids(self, request: Request, home: Home, _renderer: Renderer) -> tuple[str, ...]:
        # One more than may be compared is refused.
        named = dict.fromkeys(request.query_params.getlist("run"))
        few = islice(named, MOST_COMPARED + 1)
        return tuple([await run_in_threadpool(run_named, home, each) for each in few])


class _NearestModels(_RunPages):
    async def _ids(self, request: Request, home: Home, renderer: Renderer) -> tuple[str, ...]:
        (run,) = await super()._ids(request, home, renderer)
        curves = await run_in_threadpool(curves_of, home)
        near = await renderer.compute(request, nearest_curves, curves, run, NEIGHBOURS)
        return (run, *near)


class _Repeats(_RunPages):
    async def _ids(self, request: Request, home: Home, renderer: Renderer) -> tuple[str, ...]:
        (run,) = await super()._ids(request, home, renderer)
        return tuple(await run_in_threadpool(repeats_of, home, run))


@router.get("/models/{run}", dependencies=_SAYS)
def model(request: Request, home: HomeOfService, run: str) -> Response:
    """Return the page of a run, or nothing new for who has it already."""
    one = run_of(home, run)
    tag = {"ETag": _tag(one.version)}
    if request.headers.get("if-none-match") == tag["ETag"]:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=tag)
    return HTMLResponse(model_html(one, selection_of(request.url.query)), headers=tag)


@router.get("/questions")
def questions(request: Request) -> Response:
    """Return the list of questions."""
    return page_response(request, "questions.html", site.QUESTIONS, questions=QUESTIONS)


@router.get("/questions/clusters")
def moved(request: Request) -> Response:
    """Lead to the page of clusters, which is the map."""
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"/map{query}", HTTPStatus.PERMANENT_REDIRECT)


class _QuestionRoute(PageRoute):
    """A route of a question: its problems are on a page with the options as they were given."""

    async def explained(self, request: Request, problem: Problem) -> Response:
        page = unanswered(request.path_params["name"], request.url.query)
        if page is None:
            return problem_page(request, problem)
        return page_response(request, page.template, page.link, problem, **page.values)


def _add(path: str, pages: _Pages, page: str = "", route: type[PageRoute] | None = None) -> None:
    """Add the routes of a page and of the files of its figures."""
    router.add_api_route(
        f"{path}{page}" or "/", pages.page, dependencies=_SAYS, route_class_override=route
    )
    for folder in ("data", "figures"):
        router.add_api_route(f"{path}/{folder}/{{file}}", pages.file, dependencies=_WAITS)


_add("", _Pages("overview"))
_add("/map", _Pages("question", "clusters"))
_add("/compare", _Comparison("comparison", "affinity"))
_add("/questions/{name}", _Pages("question"), route=_QuestionRoute)
_add("/models/{run}", _RunPages("signature"), "/signature")
_add("/models/{run}/runs", _Repeats("runs"))
router.add_api_route("/models/{run}/nearest", _NearestModels("nearest").page, dependencies=_SAYS)
