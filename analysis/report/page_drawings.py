"""The drawings of pages, made by several processes where there are many pages."""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Self

from analysis.report.child_process import end_with_parent
from analysis.report.elements import Exhibit, Page
from analysis.report.inline_svg import Shown, drawn
from survey.errors import SurveyError

#: Pages that a process draws in the time that it takes to start.
PROCESS_PAGES = 20

#: Pages that each process has before it: while one takes long, the others go on.
_AHEAD = 32


@dataclass(frozen=True, slots=True)
class PageDrawings:
    """The drawings of a page."""

    exhibits: list[Shown]
    #: Figures that could not be drawn: name and reason.
    undrawn: list[tuple[str, str]]
    #: The files of drawings, data and SQL by their paths within the report.
    files: Mapping[str, str | bytes]


def page_drawings(exhibits: Sequence[Exhibit]) -> PageDrawings:
    """Draw the exhibits of a page."""
    files: dict[str, str | bytes] = {}
    return PageDrawings(*drawn(exhibits, files.__setitem__), files)


class Drawers:
    """Processes that draw pages; they start at once, and end with the ``with``.

    Parameters
    ----------
    count : int
        How many pages there are.
    processes : int
        How many processes may draw them; few pages are drawn by this one.
    """

    def __init__(self, count: int, processes: int) -> None:
        self._processes = min(processes, count // PROCESS_PAGES)
        self._begun = deque[tuple[Page, Callable[[], PageDrawings]]]()
        self._pool: ProcessPoolExecutor | None = None
        if self._processes >= 2:
            # Not forked: vl-convert has threads.
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(self._processes, context, initializer=_begin)

    def __enter__(self) -> Self:
        if self._pool:
            for _ in range(self._processes):
                self._pool.submit(_load)
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def begin(self, page: Page) -> None:
        """Begin to draw a page, which ``drawn`` yields before its own.

        Raises
        ------
        SurveyError
            If a process that draws is killed.
        """
        drawings: Callable[[], PageDrawings] = partial(page_drawings, page.exhibits)
        if self._pool:
            with _explained():
                drawings = self._pool.submit(drawings).result
        self._begun.append((page, drawings))

    def drawn(self, pages: Iterable[Page]) -> Iterator[tuple[Page, PageDrawings]]:
        """Yield the pages that were begun and then these, each with its drawings.

        Parameters
        ----------
        pages : iterable of Page
            The pages, of which some are taken ahead.

        Raises
        ------
        SurveyError
            If a process that draws is killed.
        """
        ahead = _AHEAD * self._processes if self._pool else 0
        for page in pages:
            self.begin(page)
            if len(self._begun) > ahead:
                yield self._next()
        while self._begun:
            yield self._next()

    def _next(self) -> tuple[Page, PageDrawings]:
        page, drawings = self._begun.popleft()
        with _explained():
            return page, drawings()


@contextmanager
def _explained() -> Iterator[None]:
    """Explain that a process was killed."""
    try:
        yield
    except BrokenProcessPool:
        raise SurveyError(
            "a process that drew pages was killed",
            hint="it may have lacked memory: free some, and write the report again",
        ) from None


def _load() -> None:
    """Load what draws, while the first pages are computed."""
    import vl_convert  # noqa: F401


def _begin() -> None:
    """Leave an interrupt of the terminal to the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
