"""The Model Context Protocol at ``/mcp``: operations of the API that read, offered as tools.

The transport is streamable HTTP without sessions: every message is a POST, answered in JSON. A tool
is an operation of the API under another name: its schema is that of the operation, and a call is a
request to it, with the caller's token, limits and refusals.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, StringConstraints
from starlette.types import Message

from jobs.service import API
from jobs.service.access.hosts import MCP_PATH
from jobs.service.problems import Refusal, of_refusal
from survey import __version__
from survey.text import format_bytes

router = APIRouter()

#: Versions of the protocol, the newest first.
VERSIONS = ("2025-11-25", "2025-06-18")

#: The operations that are offered: method and address below the API.
TOOLS = {
    "list": ("get", f"{API}/queries/signatures-overview"),
    "signature": ("get", f"{API}/queries/run-sites"),
    "compare": ("get", f"{API}/questions/distances"),
    "sql": ("post", f"{API}/sql"),
}

#: Bytes of the longest answer of a tool: it is one text in a message, which the loop encodes.
MOST_BYTES = 1_000_000

#: Codes of JSON-RPC.
_NO_METHOD, _WRONG_PARAMETERS = -32601, -32602

#: What a call to the API takes over from the request that it comes with.
_KEPT = ("type", "asgi", "http_version", "scheme", "client", "server", "root_path")
_KEPT_HEADERS = (b"host", b"authorization")


#: A text that an answer may repeat: one with a pattern holds no halves of letters, which JSON can
#: spell and nothing can encode.
_Text = Annotated[str, StringConstraints(pattern="")]


class ClientMessage(BaseModel):
    """A message of a client: a request, or without ``id`` a notification."""

    jsonrpc: Literal["2.0"]
    id: int | _Text | None = None
    method: _Text | None = None
    params: dict[str, Any] = {}


class _Error(Exception):
    """A request of the protocol that cannot be answered: its code and why."""


@router.post(MCP_PATH, include_in_schema=False)
async def answer(request: Request, call: ClientMessage) -> Response:
    """Answer a message of the Model Context Protocol."""
    version = request.headers.get("mcp-protocol-version", VERSIONS[0])
    if version not in VERSIONS:
        raise Refusal(
            HTTPStatus.BAD_REQUEST,
            f"the protocol's version is {version}",
            f"known: {', '.join(VERSIONS)}",
        )
    if call.id is None or call.method is None:
        return Response(status_code=HTTPStatus.ACCEPTED)
    try:
        values = {"result": await _result(request, call.method, call.params)}
    except _Error as error:
        code, message = error.args
        values = {"error": {"code": code, "message": message}}
    return JSONResponse({"jsonrpc": "2.0", "id": call.id, **values})


async def _result(request: Request, method: str, given: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        asked = given.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "model-zoo-survey", "version": __version__},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": [_tool(request.app, name) for name in TOOLS]}
    if method != "tools/call":
        raise _Error(_NO_METHOD, f"unknown method {method}")
    name, arguments = given.get("name"), given.get("arguments") or {}
    if not (isinstance(name, str) and name in TOOLS and isinstance(arguments, dict)):
        raise _Error(_WRONG_PARAMETERS, f"name is one of {', '.join(TOOLS)}, arguments an object")
    status, text = await _ask(request, *TOOLS[name], arguments)
    return {"content": [{"type": "text", "text": text}], "isError": status >= 400}


def _tool(app: FastAPI, name: str) -> dict[str, Any]:
    """Return a tool as the schema of the API declares its operation."""
    method, path = TOOLS[name]
    operation = (schema := app.openapi())["paths"][path][method]
    if body := operation.get("requestBody"):
        reference = body["content"]["application/json"]["schema"]["$ref"]
        arguments = schema["components"]["schemas"][reference.rpartition("/")[2]]
    else:
        arguments = {
            "type": "object",
            "properties": {
                each["name"]: {"description": each["description"], **each["schema"]}
                for each in operation["parameters"]
            },
            "required": [each["name"] for each in operation["parameters"] if each.get("required")],
            "additionalProperties": False,
        }
    return {
        "name": name,
        "description": operation["description"],
        "inputSchema": arguments,
        "annotations": {"readOnlyHint": True},
    }


async def _ask(request: Request, method: str, path: str, asked: dict[str, Any]) -> tuple[int, str]:
    """Return the status and body of the API's answer to a request of the same caller."""
    given = {name: value for name, value in asked.items() if value is not None}
    in_body = method == "post"
    kept = [pair for pair in request.scope["headers"] if pair[0] in _KEPT_HEADERS]
    json_alone = [(name, b"application/json") for name in (b"accept", b"content-type")]
    scope = {
        **{name: value for name, value in request.scope.items() if name in _KEPT},
        "method": method.upper(),
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"" if in_body else urlencode(given, doseq=True, errors="replace").encode(),
        "headers": [*kept, *json_alone],
    }
    bodies, sent = [json.dumps(given).encode() if in_body else b""], list[Message]()
    room = MOST_BYTES

    async def receive() -> Message:
        if bodies:
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}
        # The client of the one goes away with that of the other.
        return await request.receive()

    async def send(message: Message) -> None:
        nonlocal room
        room -= len(message.get("body", b""))
        if room >= 0:
            sent.append(message)

    await request.app(scope, receive, send)
    if room < 0:
        too_long = of_refusal(
            Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the answer takes {format_bytes(MOST_BYTES - room)}, allowed are"
                f" {format_bytes(MOST_BYTES)}",
                "take fewer rows with LIMIT or the argument limit, or fewer columns",
            )
        )
        return too_long.status, too_long.model_dump_json(exclude_none=True)
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent).decode()
