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
from typing import Any

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


def files_of_pages(
    pages: Iterable[Page], count: int, site: Mapping[str, Any], processes: int
) -> Iterator[PageFiles]:
    """Yield the files of each page, in order.

    Parameters
    ----------
    pages : iterable of Page
        The pages, which can be pickled.
    count : int
        How many there are.
    site : mapping
        As in ``page_files``.
    processes : int
        How many processes may make them; few pages are made by this one.

    Raises
    ------
    SurveyError
        If such a process is killed.
    """
    processes = min(processes, count // PROCESS_PAGES)
    if processes < 2:
        yield from (page_files(page, site) for page in pages)
        return
    # Not forked: vl-convert has threads.
    context = multiprocessing.get_context("spawn")
    waiting = deque[Future[PageFiles]]()
    with ProcessPoolExecutor(processes, context, initializer=_begin) as pool:
        try:
            for page in pages:
                waiting.append(pool.submit(page_files, page, site))
                if len(waiting) > _AHEAD * processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise SurveyError(
                "a process that made pages was killed",
                hint="it may have lacked memory: free some, and write the report again",
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Leave an interrupt of the terminal to the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
