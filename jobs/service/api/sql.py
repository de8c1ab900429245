"""SQL over HTTP: one statement that reads, in a process of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from jobs.choices import Suffix
from jobs.service.api.formats import BINARY, MEDIA_TYPES, format_of
from jobs.service.dependencies import QueriesOfService
from jobs.service.queries import Result

router = APIRouter(tags=["sql"])

_PIECE_BYTES = 1 << 18


class Statement(BaseModel, extra="forbid"):
    """A statement that reads."""

    #: One statement, such as SELECT.
    sql: str
    #: The first so many rows of its result; all by default.
    limit: int | None = Field(None, ge=0, le=2**53)


class ResultRows(BaseModel):
    """The result of a statement."""

    #: Its rows, by column.
    items: list[dict[str, Any]]
    #: There is no other page.
    next: None = None


async def _room(queries: QueriesOfService) -> AsyncIterator[Result]:
    async with queries.room() as room:
        yield room


#: Where a result waits until its client has it.
RoomOfResult = Annotated[Result, Depends(_room)]


@router.post(
    "/sql",
    name="sql",
    operation_id="sql",
    response_class=Response,
    responses={200: {"model": ResultRows, "description": "Its rows.", "content": BINARY}},
)
@router.post("/sql.{suffix}", include_in_schema=False)
async def query(
    request: Request,
    statement: Statement,
    queries: QueriesOfService,
    room: RoomOfResult,
    suffix: Suffix | None = None,
) -> Response:
    """Answer one statement about everything measured so far, as ``survey sql`` does.

    `SHOW TABLES` has the tables, `DESCRIBE models` the columns of one. The query reads; it reaches
    neither files nor the network, and is ended with its client.
    """
    form = format_of(request, suffix)
    if form == "json":
        room.write(b'{"items": ')
    await queries.run(request, statement.sql, form, statement.limit, room)
    if form == "json":
        room.write(b', "next": null}\n')
    return result_response(room, form, {"Vary": "Accept"})


def result_response(room: Result, form: Suffix, headers: dict[str, str]) -> Response:
    """Return what waits in a result's room as a response."""
    headers = {"Content-Length": str(room.tell()), **headers}
    room.seek(0)
    pieces = iter(lambda: room.read(_PIECE_BYTES), b"")
    return StreamingResponse(pieces, media_type=MEDIA_TYPES[form], headers=headers)
