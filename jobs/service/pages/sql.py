"""The page of SQL: a query in its address, its result as a table and as a figure, and files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from analysis.report.query_result import rows_drawing, rows_table
from jobs.service.api.formats import Suffix
from jobs.service.api.sql import RoomOfResult, result_response
from jobs.service.dependencies import QueriesOfService
from jobs.service.pages.site import NAVIGATION, PageRoute, page_response

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

Statement = Annotated[str, Query(alias="query", max_length=20_000)]
Axis = Annotated[str, Query(max_length=200)]


@router.get("")
async def show(
    request: Request,
    queries: QueriesOfService,
    room: RoomOfResult,
    query: Statement = "",
    x: Axis = "",
    y: Axis = "",
) -> Response:
    """Return the result of a query; without one, the form and the examples."""
    values: dict[str, Any] = {"query": query, "examples": EXAMPLES, "x": x, "y": y}
    if query.strip():
        await queries.run(request, query, "json", MOST_ROWS, room)
        room.seek(0)
        values |= await run_in_threadpool(_shown, json.load(room), x, y)
    return page_response(request, "sql.html", NAVIGATION[7], **values)


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


def _shown(rows: list[dict[str, Any]], x: str, y: str) -> dict[str, Any]:
    return {
        "result": rows_table(rows) if rows else None,
        "columns": list(rows[0]) if rows else [],
        "cut": len(rows) == MOST_ROWS,
        "most": MOST_ROWS,
        "svg": rows_drawing(rows, x, y) if rows and {x, y} <= set(rows[0]) else "",
    }
