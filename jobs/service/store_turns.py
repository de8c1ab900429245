"""Turns of requests that read the store itself: seconds of it, on a thread of all readers.

Whoever waits for a turn holds no thread, so that lists and pages of runs do not wait for these.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi import Request

from jobs.service.problems import Unavailable

#: Requests that read it at once, of forty that have threads, and seconds that others wait.
READERS, WAIT_SECONDS = 8, 120.0


def store_turns() -> asyncio.Semaphore:
    """Return the turns of a service."""
    return asyncio.Semaphore(READERS)


async def store_turn(request: Request) -> AsyncIterator[None]:
    """Let a request read the store when it is its turn.

    Raises
    ------
    Unavailable
        If it waits too long.
    """
    turns: asyncio.Semaphore = request.app.state.store_turns
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            await turns.acquire()
    except TimeoutError:
        reason = f"{READERS} other requests read the store"
        raise Unavailable(reason, "ask again in a minute", 60) from None
    try:
        yield
    finally:
        turns.release()
