"""How far the scan is: as JSON, and live by server-sent events."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Any, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel
from starlette.datastructures import State

from catalog.home import Home
from jobs.operations.server_paths import without_folders
from jobs.operations.watch import look_at
from jobs.operations.watch_screen import look_values
from jobs.service import API
from jobs.service.access.callers import Caller, is_still_let_in
from jobs.service.dependencies import CallerOfRequest, HomeOfService
from jobs.service.driver_state import driver_state
from jobs.service.problems import Unavailable

router = APIRouter(tags=["scan"])

#: Seconds between two looks at the scan, and the longest between two events.
LOOK_SECONDS, ALIVE_SECONDS = 1.0, 15.0

#: Streams at once.
MOST_STREAMS = 200

_PLACES = threading.BoundedSemaphore(MOST_STREAMS)


class DriverView(BaseModel):
    """What the driver does, which runs schedules and submitted surveys."""

    state: Literal["idle", "waiting", "running", "absent"]
    doing: str
    reason: str
    since: float


class Progress(BaseModel):
    """How far the scan is, and what the driver does."""

    driver: DriverView
    #: As ``survey status --watch --json`` has it: state, at, jobs, done, failed, fraction,
    #: images_per_second, seconds_left, working (each worker with its job), failures, ...
    scan: dict[str, Any]


@router.get("/progress")
def progress(home: HomeOfService) -> Progress:
    """Return how far the scan is that runs, or how the last one ended."""
    driver = driver_state(home)
    view = {name: without_folders(getattr(driver, name)) for name in DriverView.model_fields}
    scan = without_folders(look_values(look_at(home)))
    return Progress(driver=DriverView(**view), scan=scan)


async def _place() -> AsyncIterator[None]:
    """Take a place among the streams until the client goes away."""
    if not _PLACES.acquire(blocking=False):
        raise Unavailable(
            f"{MOST_STREAMS} clients watch the scan already",
            f"ask {API}/progress now and then",
        )
    try:
        yield
    finally:
        _PLACES.release()


@router.get("/progress/stream", response_class=EventSourceResponse, dependencies=[Depends(_place)])
async def stream(
    request: Request, home: HomeOfService, caller: CallerOfRequest
) -> AsyncIterator[ServerSentEvent]:
    """Send how far the scan is whenever that changes, until the client goes away.

    It ends, too, once the client's token is revoked or has expired.
    """
    async for event in _events(home, request.app.state, caller):
        yield event


async def _events(home: Home, service: State, caller: Caller) -> AsyncIterator[ServerSentEvent]:
    last, sent = None, 0.0
    while not service.stopping:
        now = await run_in_threadpool(progress, home)
        # What changes with the clock alone is no change.
        still = dict.fromkeys(("at", "seconds_left", "images_per_second"))
        known = {**now.model_dump(), "scan": {**now.scan, **still}}
        if known != last or time.monotonic() - sent > ALIVE_SECONDS:
            last, sent = known, time.monotonic()
            # Before each event: what comes after the end of a token is not for its bearer.
            if not await run_in_threadpool(is_still_let_in, caller, service.registry.tokens):
                return
            yield ServerSentEvent(event="progress", data=now.model_dump())
        await asyncio.sleep(LOOK_SECONDS)
