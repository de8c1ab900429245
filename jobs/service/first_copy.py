"""The first copy of a home that a service reads lists and answers from.

Of a large home it takes a minute, in which requests wait without a thread, and pages say so.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from threading import Thread

from fastapi import Request

from catalog.copied_home import copy_now
from catalog.home import Home
from jobs.service.problems import Refusal, Unavailable

#: Seconds between two looks whether it is made.
LOOK_SECONDS = 0.2


class FirstCopy:
    """A copy that is made once, from when it is begun; where it is not, whoever reads makes it."""

    def __init__(self) -> None:
        self._thread: Thread | None = None

    def begin(self, home: Home) -> None:
        """Let it be made."""
        self._thread = Thread(target=copy_now, args=(home,), name="first copy", daemon=True)
        self._thread.start()

    @property
    def under_way(self) -> bool:
        """Whether it is being made."""
        return self._thread is not None and self._thread.is_alive()


async def first_copy_made(request: Request) -> None:
    """Let a request for what is read from the copy wait until that is made.

    Raises
    ------
    Refusal
        If the service is told to stop before.
    """
    while request.app.state.first_copy.under_way:
        if request.app.state.stopping:
            raise Unavailable("the service stops", "ask again")
        await asyncio.sleep(LOOK_SECONDS)


async def require_first_copy(request: Request) -> None:
    """Answer a page that is read from the copy at once while that is not made.

    Raises
    ------
    Refusal
        With a status of success: a browser asks again by itself.
    """
    if request.app.state.first_copy.under_way:
        raise Refusal(
            HTTPStatus.ACCEPTED,
            "what this home holds is copied for the first time",
            "of thousands of runs it takes a minute; this page comes by itself",
            {"Refresh": "3", "Cache-Control": "no-store"},
        )
