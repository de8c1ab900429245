"""Pages as files: drawn and written as HTML, by several processes where there are many."""

from __future__ import annotations

import functools
import multiprocessing
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import Any, Self

from jinja2 import Environment

from analysis.report.child_process import end_with_parent
from analysis.report.elements import Page
from analysis.report.inline_svg import drawn
from analysis.report.templating import templates
from survey.errors import SurveyError

#: Pages that a process makes in the time that it takes to start.
PROCESS_PAGES = 20

#: Pages that each process has before it: while one takes long, the others go on.
_AHEAD = 32


@dataclass(frozen=True, slots=True)
class PageFiles:
    """The files of a page by their paths within the report."""

    files: Mapping[str, str | bytes]
    #: Figures that could not be drawn: name and reason.
    undrawn: list[tuple[str, str]]


def page_files(page: Page, site: Mapping[str, Any]) -> PageFiles:
    """Return the files of a page.

    Parameters
    ----------
    page : Page
        The page.
    site : mapping
        What every page of the report shows: title, caption, and links to pages.
    """
    files: dict[str, str | bytes] = {}
    exhibits, lacking = drawn(page, files.__setitem__)
    layout = _layout()
    layout.globals["site"] = site
    at = partial(add, "../" * page.link.address.count("/"))
    files[page.link.address] = layout.get_template(page.template).render(
        link=page.link, at=at, exhibits=exhibits, lacking=lacking, **page.values
    )
    return PageFiles(files, lacking)


@functools.cache
def _layout() -> Environment:
    """Return the templates of a report; a process loads them once."""
    return templates()


class PageMakers:
    """Processes that make the files of pages; they start at once, and end with the ``with``.

    Parameters
    ----------
    count : int
        How many pages there are.
    processes : int
        How many processes may make them; few pages are made by this one.
    """

    def __init__(self, count: int, processes: int) -> None:
        self._processes = min(processes, count // PROCESS_PAGES)
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

    def files(self, pages: Iterable[Page], site: Mapping[str, Any]) -> Iterator[PageFiles]:
        """Yield the files of each page, in order.

        Parameters
        ----------
        pages : iterable of Page
            The pages, which can be pickled.
        site : mapping
            As in ``page_files``.

        Raises
        ------
        SurveyError
            If such a process is killed.
        """
        if not self._pool:
            yield from (page_files(page, site) for page in pages)
            return
        waiting = deque[Future[PageFiles]]()
        try:
            for page in pages:
                waiting.append(self._pool.submit(page_files, page, site))
                if len(waiting) > _AHEAD * self._processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise SurveyError(
                "a process that made pages was killed",
                hint="it may have lacked memory: free some, and write the report again",
            ) from None


def _load() -> None:
    """Load what pages are made with, while the first of them are computed."""
    import vl_convert  # noqa: F401

    _layout()


def _begin() -> None:
    """Leave an interrupt of the terminal to the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
