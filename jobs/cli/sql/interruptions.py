"""What Ctrl-C does at the prompt of ``survey sql``, at whichever moment it comes.

Raised wherever a signal happens to arrive, an interruption could leave the prompt, or be swallowed
by what runs then. It is raised only while a line is typed; at any other time it is remembered, and
ends the query that is answered, or the one that is about to be.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from jobs.cli.terminal import complain, say
from survey.errors import QueryError, SurveyError

if TYPE_CHECKING:
    from jobs.operations.sql_query import SqlQuery


class Interruptions:
    """The interruptions of a prompt."""

    def __init__(self) -> None:
        self._came = False
        self._query: SqlQuery | None = None

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle Ctrl-C here for a while."""
        before = signal.signal(signal.SIGINT, self._take)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def line(self, prompt: str) -> str:
        """Return a line that is typed.

        Raises
        ------
        KeyboardInterrupt
            If Ctrl-C comes, or came since the last line and there was no query for it to end.
        EOFError
            At the end of the input.
        """
        if self._came:
            self._came = False
            raise KeyboardInterrupt
        return input(prompt)

    def answer(self, query: SqlQuery, write: Callable[[SqlQuery], None]) -> None:
        """Write the result of a query, or what went wrong with it, or that it was ended."""
        self._query = query
        if self._came:
            query.end()
        try:
            write(query)
        except SurveyError as error:
            if self._came:
                say("", "the query was ended")
            else:
                complain(error.message, error.hint, lines=isinstance(error, QueryError))
        finally:
            self._query, self._came = None, False

    def _take(self, _: int, frame: FrameType | None) -> None:
        # The frame tells for certain: a flag could be read an instruction too early or too late.
        if frame is not None and frame.f_code is Interruptions.line.__code__:
            raise KeyboardInterrupt
        self._came = True
        if self._query is not None:
            self._query.end()
