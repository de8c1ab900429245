"""The page of SQL: a query in its address, its result as a table and as a figure, and files."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from analysis.report.query_result import rows_drawing, rows_table
from jobs.choices import Suffix
from jobs.service.api.saved_queries import MOST_LETTERS, QueryName, QueryText
from jobs.service.api.sql import RoomOfResult, result_response
from jobs.service.dependencies import QueriesOfService, RegistryOfService
from jobs.service.pages import site
from jobs.service.pages.site import PageRoute, page_response
from jobs.service.problems import of_error
from jobs.service.queries import Queries
from survey.errors import SurveyError

router = APIRouter(route_class=PageRoute, prefix="/sql")

#: Rows that a page shows.
MOST_ROWS = 500

#: The queries that the page offers, by what each asks.
EXAMPLES = dict(
    re.findall(
        r"^-- name: (.+)\n((?:(?!-- name:).+\n)+)",
        Path(__file__).with_name("example_queries.sql").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
)

Statement = Annotated[str, Query(alias="query", max_length=MOST_LETTERS)]
Axis = Annotated[str, Query(max_length=200)]
SentAxis = Annotated[str, Form(max_length=200)]


@router.get("")
async def show(
    request: Request,
    queries: QueriesOfService,
    registry: RegistryOfService,
    query: Statement = "",
    x: Axis = "",
    y: Axis = "",
) -> Response:
    """Return the result of a query; without one, the form and the examples."""
    saved = await run_in_threadpool(registry.saved_queries.all)
    name = next((each.name for each in saved if each.sql == _plain(query)), "")
    values: dict[str, Any] = {"query": query, "x": x, "y": y, "saved": saved, "name": name}
    values |= {"examples": EXAMPLES, "literal": _literal(query)}
    problem = None
    if query.strip():
        try:
            values |= await _result(request, queries, query, x, y)
        except SurveyError as error:
            # Whoever mistyped mends what is still there.
            problem = of_error(error, request, (request.app.state.settings.home.path,))
    return page_response(request, "sql.html", site.SQL, problem, **values)


@router.get("/result.{suffix}")
async def result(
    request: Request,
    queries: QueriesOfService,
    room: RoomOfResult,
    query: Statement,
    suffix: Suffix,
) -> Response:
    """Return the whole result of a query as a file."""
    await queries.run(request, query, suffix, None, room)
    headers = {"Content-Disposition": f'attachment; filename="result.{suffix}"'}
    return result_response(room, suffix, headers)


@router.post("/saved")
def save(
    name: Annotated[QueryName, Form()],
    query: Annotated[QueryText, Form()],
    registry: RegistryOfService,
    x: SentAxis = "",
    y: SentAxis = "",
) -> Response:
    """Keep a query under a name; the page shows it as it was, with its drawing."""
    query = _plain(query)
    registry.saved_queries.save(name, query, datetime.now(UTC))
    shown = {"query": query, **({"x": x, "y": y} if x and y else {})}
    return RedirectResponse(f"/sql?{urlencode(shown)}", HTTPStatus.SEE_OTHER)


@router.post("/saved/{name}/remove")
def remove(name: str, registry: RegistryOfService) -> Response:
    """Forget a query that was kept."""
    registry.saved_queries.remove(name)
    return RedirectResponse("/sql", HTTPStatus.SEE_OTHER)


async def _result(request: Request, queries: Queries, query: str, x: str, y: str) -> dict[str, Any]:
    """Return what the page shows of a query's result."""
    most = min(MOST_ROWS + 1, queries.most_rows)
    async with queries.room() as room:
        await queries.run(request, query, "json", most, room)
        room.seek(0)
        rows = json.load(room)
    return await run_in_threadpool(_shown, rows, most, x, y)


def _plain(query: str) -> str:
    """Return a statement with the ends of lines that forms change as they were."""
    return query.replace("\r\n", "\n")


def _literal(query: str) -> str:
    """Return a statement as Python has it: whoever copies the cell runs nothing else."""
    return repr(query) if re.search(r'"""|\\|"\Z', query) else f'"""{query}"""'


def _shown(rows: list[dict[str, Any]], most: int, x: str, y: str) -> dict[str, Any]:
    cut = len(rows) == most
    rows = rows[:MOST_ROWS]
    return {
        "result": rows_table(rows) if rows else None,
        "columns": list(rows[0]) if rows else [],
        "cut": cut,
        "most": len(rows),
        "svg": rows_drawing(rows, x, y) if rows and {x, y} <= set(rows[0]) else "",
    }
