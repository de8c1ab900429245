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


#: Seconds between the alarms that end the wait for a key.
_ALARM_SECONDS = 0.5


class Interruptions:
    """The interruptions of a prompt."""

    def __init__(self) -> None:
        self._came = False
        self._query: SqlQuery | None = None

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle Ctrl-C here for a while."""
        before = signal.signal(signal.SIGINT, self._take)
        alarmed = signal.signal(signal.SIGALRM, lambda *_: None)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, alarmed)
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
        # A signal just before `input` waits for a key does not end that wait: the next alarm does.
        signal.setitimer(signal.ITIMER_REAL, _ALARM_SECONDS, _ALARM_SECONDS)
        try:
            return input(prompt)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

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
