"""The processes that compute answers and pages of them, and the pages that were made lately."""

from __future__ import annotations

import hashlib
import math
import multiprocessing
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from http import HTTPStatus
from pathlib import Path
from threading import Lock, Thread
from typing import Any, TypeVar

from catalog.home import Home, segment_paths
from catalog.registry.labels import labels_of
from catalog.registry.registry import Registry
from jobs.service.problems import Refusal
from jobs.service.settings import NICENESS

Computed = TypeVar("Computed")
Asked = TypeVar("Asked", bound=Hashable)

#: Pages that are kept, and seconds that a page may take.
MOST_PAGES, PAGE_SECONDS = 256, 120.0

#: Seconds between two looks at whether a home holds anything new.
FRESH_SECONDS = 5.0


class Renderer:
    """Computes answers in processes of their own, and pages once for what a home holds.

    Answers may take seconds, and all of a processor: in other processes they keep no other request
    waiting.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._pages: OrderedDict[Hashable, Future[Any]] = OrderedDict()
        #: Pages about a few runs do not wait for those about all.
        self._process, self._quick = _new_process(), _new_process()
        self._revision, self._looked = "", -math.inf

    def revision(self, home: Home) -> str:
        """Return what changes with what a home holds, as it was a few seconds ago."""
        with self._lock:
            if time.monotonic() - self._looked > FRESH_SECONDS:
                self._revision, self._looked = revision(home), time.monotonic()
            return self._revision

    def page(self, make: Callable[[Asked], Computed], asked: Asked, quick: bool) -> Computed:
        """Return what a function makes of what is asked; what it made before as it was.

        Parameters
        ----------
        make : callable
            A function of a module.
        asked : hashable
            Its argument; another content of the home is another one.
        quick : bool
            Whether it is about a few runs, and need not wait for what is about all.

        Raises
        ------
        SurveyError
            If there is no such page.
        Refusal
            If it takes too long.
        """
        future = self._future(make, asked, quick)
        try:
            return self._result(future)
        finally:
            if future.done() and future.exception() is not None:
                with self._lock:
                    self._pages.pop(asked, None)

    def compute(
        self, function: Callable[..., Computed], *given: Any, quick: bool = True
    ) -> Computed:
        """Return what a function of a module returns, called in one of the processes.

        Raises
        ------
        Refusal
            If it takes too long.
        """
        with self._lock:
            future = (self._quick if quick else self._process).submit(function, *given)
        try:
            return self._result(future)
        finally:
            # Nobody waits for what has not begun.
            future.cancel()

    def close(self) -> None:
        """End the processes."""
        for process in (self._process, self._quick):
            process.shutdown(wait=False, cancel_futures=True)

    def _result(self, future: Future[Computed]) -> Computed:
        try:
            return future.result(PAGE_SECONDS)
        except TimeoutError:
            raise Refusal(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"the answer is not ready after {PAGE_SECONDS:.0f} seconds",
                "ask again in a minute, or choose fewer models",
                {"Retry-After": "60"},
            ) from None
        except BrokenProcessPool:
            self._restart()
            raise Refusal(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "the process that computes answers ended, as it does when memory is short",
                "choose fewer models",
            ) from None

    def _future(
        self, make: Callable[[Asked], Computed], asked: Asked, quick: bool
    ) -> Future[Computed]:
        with self._lock:
            if asked not in self._pages:
                process = self._quick if quick else self._process
                self._pages[asked] = process.submit(make, asked)
            self._pages.move_to_end(asked)
            while len(self._pages) > MOST_PAGES:
                self._pages.popitem(last=False)
            return self._pages[asked]

    def _restart(self) -> None:
        with self._lock:
            self._pages.clear()
            self.close()
            self._process, self._quick = _new_process(), _new_process()


def _new_process() -> ProcessPoolExecutor:
    # Not forked: this process has threads.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, context, initializer=_begin)


def _begin() -> None:
    os.nice(NICENESS)
    Thread(target=_end_with_service, daemon=True).start()


def _end_with_service() -> None:
    """End this process once the service is gone, even if it was killed."""
    if service := multiprocessing.parent_process():
        service.join()
        os._exit(0)


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
