"""The processes that compute answers and pages, and pages of a few runs that were made lately."""

from __future__ import annotations

import asyncio
import hashlib
import math
import multiprocessing
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from fastapi import Request

from analysis.report.child_process import end_with_parent
from catalog.home import Home, segment_paths
from catalog.registry.labels import labels_of
from catalog.registry.registry import Registry
from jobs.service.libraries import load_libraries
from jobs.service.problems import Unavailable
from jobs.service.queries import ended_with_client
from jobs.service.settings import NICENESS

Computed = TypeVar("Computed")
Asked = TypeVar("Asked", bound=Hashable)

#: Pages that are kept, and seconds that a page may take.
MOST_PAGES, PAGE_SECONDS = 256, 120.0

#: Requests that may wait for a process: what comes then is not begun.
MOST_WAITING = 64

#: Seconds until a refused request may be repeated.
_LATER = 60

#: Seconds between two looks at whether a home holds anything new.
FRESH_SECONDS = 5.0


class Renderer:
    """Computes answers in processes of their own, and pages once for what a home holds.

    Answers may take seconds, and all of a processor: in other processes they keep no other request
    waiting, and whoever waits for one holds no thread. All but ``revision`` is for one event loop.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._pages: OrderedDict[Hashable, Future[Any]] = OrderedDict()
        #: Pages about a few runs do not wait for those about all.
        self._quick, self._slow = _Line(), _Line()
        self._revision, self._looked = "", -math.inf

    def revision(self, home: Home) -> str:
        """Return what changes with what a home holds, as it was a few seconds ago."""
        with self._lock:
            if time.monotonic() - self._looked > FRESH_SECONDS:
                self._revision, self._looked = revision(home), time.monotonic()
            return self._revision

    async def page(self, make: Callable[[Asked], Computed], asked: Asked) -> Computed:
        """Return what a function makes of a few runs; what it made before as it was.

        Parameters
        ----------
        make : callable
            A function of a module.
        asked : hashable
            Its argument; another content of the home is another one.

        Raises
        ------
        SurveyError
            If there is no such page.
        Unavailable
            If too many wait, or it takes too long.
        """
        wanted = make, asked
        if wanted not in self._pages or _failed(self._pages[wanted]):
            self._pages[wanted] = self._quick.submit(make, asked)
        self._pages.move_to_end(wanted)
        while len(self._pages) > MOST_PAGES:
            self._pages.popitem(last=False)
        return await self._quick.result(self._pages[wanted])

    async def compute(
        self, request: Request, function: Callable[..., Computed], *given: Any
    ) -> Computed:
        """Return what a function of a module returns, called about a few runs.

        What has not begun when the client of the request goes away is not computed.

        Raises
        ------
        Unavailable
            If too many wait, or it takes too long.
        """
        future = self._quick.submit(function, *given)
        async with ended_with_client(request, future.cancel):
            return await self._quick.result(future)

    def load(self) -> None:
        """Let the processes load the libraries of answers."""
        for line in (self._quick, self._slow):
            line.submit(load_libraries)

    def begin(self, function: Callable[..., Computed], *given: Any) -> Future[Computed]:
        """Let a function of a module be called about all runs, whoever waits for it.

        Raises
        ------
        Unavailable
            If too many wait.
        """
        return self._slow.submit(function, *given)

    async def result(self, begun: asyncio.Task[Computed]) -> Computed:
        """Return what comes of what was begun, or raise as ``compute`` does."""
        return await self._slow.result(begun)

    def close(self) -> None:
        """End the processes."""
        for line in (self._quick, self._slow):
            line.close()


class _Line:
    """A process that computes one thing after the other, and the requests that wait for it."""

    def __init__(self) -> None:
        self._process, self._waiting = _new_process(), 0

    def submit(self, function: Callable[..., Computed], *given: Any) -> Future[Computed]:
        """Let a function be called; ``Unavailable`` where too many wait."""
        if self._waiting >= MOST_WAITING:
            reason = f"{MOST_WAITING} requests wait for answers"
            raise Unavailable(reason, "ask again in a minute", _LATER)
        try:
            return self._process.submit(function, *given)
        except BrokenProcessPool:
            self._process = _new_process()
            return self._process.submit(function, *given)

    async def result(self, future: Future[Computed] | asyncio.Task[Computed]) -> Computed:
        """Return what a function that was submitted returns, or what a task makes of it."""
        self._waiting += 1
        try:
            async with asyncio.timeout(PAGE_SECONDS):
                # Others may wait for it too: it goes on where this request does not.
                return await asyncio.shield(_awaitable(future))
        except TimeoutError:
            raise Unavailable(
                f"the answer is not ready after {PAGE_SECONDS:.0f} seconds",
                "ask again in a minute, or choose fewer models",
                _LATER,
            ) from None
        except BrokenProcessPool:
            raise Unavailable(
                "the process that computes answers ended, as it does when memory is short",
                "choose fewer models",
                _LATER,
            ) from None
        except asyncio.CancelledError:
            if not future.cancelled():
                raise
            raise Unavailable("the request was cancelled", "ask again", _LATER) from None
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """End the process, whatever it computes: nobody waits for it any more."""
        processes = list((self._process._processes or {}).values())
        self._process.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()


def _awaitable(future: Future[Computed] | asyncio.Task[Computed]) -> asyncio.Future[Computed]:
    return asyncio.wrap_future(future) if isinstance(future, Future) else future


def _failed(future: Future[Any]) -> bool:
    return future.done() and (future.cancelled() or future.exception() is not None)


def _new_process() -> ProcessPoolExecutor:
    # Not forked: this process has threads.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, context, initializer=_begin)


def _begin() -> None:
    os.nice(NICENESS)
    end_with_parent()


def revision(home: Home) -> str:
    """Return what changes whenever the measurements, labels, tags or events of a home do."""
    files = [home.signatures, *segment_paths(home.spool)]
    state = [(path.name, _stamp(path)) for path in files]
    with Registry(home) as registry:
        newest = [event.id for event in registry.events.latest(1)]
    return hashlib.sha256(repr((state, labels_of(home), newest)).encode()).hexdigest()[:16]


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0
    return status.st_size, status.st_mtime_ns
