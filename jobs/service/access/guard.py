"""The guard before the application: what it refuses, no route ever sees."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from fastapi.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobs.service.access.callers import Caller, Callers
from jobs.service.access.headers import adding_headers
from jobs.service.access.hosts import require_content_type, require_host, require_same_origin
from jobs.service.problems import Refusal, Unavailable, of_refusal, problem_response
from jobs.service.settings import ServiceSettings
from survey.errors import SurveyError

#: What is answered to everybody, from memory.
OPEN_PATHS = frozenset({"/healthz"})


class Guard:
    """An application behind its checks; every response has the headers.

    Parameters
    ----------
    app : ASGI application
        What answers.
    settings : ServiceSettings
        Which hosts are ours, and whether tokens are needed.
    callers : Callers
        Finds out who sends a request.
    """

    def __init__(self, app: ASGIApp, settings: ServiceSettings, callers: Callers) -> None:
        self._app, self._settings, self._callers = app, settings, callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            # Of the answer to the GET the server sends the headers alone.
            scope = {**scope, "method": "GET"}
        request, answer = Request(scope), adding_headers(send)
        try:
            request.state.caller = await self._caller(request)
        except HTTPException as refusal:
            response = problem_response(of_refusal(refusal), refusal.headers)
            await response(scope, receive, answer)
        except SurveyError:
            # Whoever asks is not known yet, and is not told where the registry lies.
            unknown = Unavailable(
                "the registry, which has the tokens, cannot be read", "ask again in a minute"
            )
            await problem_response(of_refusal(unknown))(scope, receive, answer)
        else:
            await self._answer(scope, receive, answer)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer; what the service stops before that is refused."""
        begun = too_large = False

        async def sending(message: Message) -> None:
            nonlocal begun, too_large
            begun = True
            # No route of ours answers so, only the framework: in plain text, or without the limit.
            too_large = too_large or message.get("status") == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            if not too_large:
                await send(message)

        try:
            await self._app(scope, receive, sending)
            if too_large:
                await problem_response(of_refusal(self._too_large))(scope, receive, send)
        except asyncio.CancelledError:
            if begun:
                raise
            stops = Unavailable("the service stops", "ask again once it runs", 5)
            await problem_response(of_refusal(stops), stops.headers)(scope, receive, send)

    @property
    def _too_large(self) -> Refusal:
        most = self._settings.most_body_bytes
        return Refusal(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request's body has at most {most:,} bytes"
        )

    async def _caller(self, request: Request) -> Caller:
        require_host(request, self._settings)
        require_same_origin(request)
        if request.url.path in OPEN_PATHS:
            return Caller(scope="read")
        # It reads the registry.
        caller = await run_in_threadpool(self._callers.of, request)
        require_content_type(request)
        return caller
