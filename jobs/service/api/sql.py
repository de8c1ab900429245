"""SQL over HTTP: one statement that reads, in a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from jobs.choices import Suffix
from jobs.service.api.formats import BINARY, MEDIA_TYPES, format_of
from jobs.service.dependencies import QueriesOfService
from jobs.service.queries import Result

router = APIRouter(tags=["sql"])

_PIECE_BYTES = 1 << 18

#: Seconds within which a client takes each piece of a result: its room is for others then.
TAKE_SECONDS = 30.0


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


class _ResultResponse(StreamingResponse):
    """A response that is given up where its client does not take it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the result, until a piece is not taken in time."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(TAKE_SECONDS):
                await send(message)

        # The server closes a connection whose response ends before its length. Starlette takes what
        # is too late for a client that went away.
        with suppress(TimeoutError, ClientDisconnect):
            await super().__call__(scope, receive, send_in_time)


def result_response(room: Result, form: Suffix, headers: dict[str, str]) -> Response:
    """Return what waits in a result's room as a response."""
    headers = {"Content-Length": str(room.tell()), **headers}
    room.seek(0)
    pieces = iter(lambda: room.read(_PIECE_BYTES), b"")
    return _ResultResponse(pieces, media_type=MEDIA_TYPES[form], headers=headers)
