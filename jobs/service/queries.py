"""Queries of clients: a bounded number at once, each in a process that ends with its client."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from subprocess import Popen
from tempfile import SpooledTemporaryFile
from typing import IO

from fastapi import Request

from catalog.home import Home
from jobs.choices import ResultFormat
from jobs.operations.sql_query import SqlQuery, query_process
from jobs.service.problems import Unavailable
from jobs.service.settings import NICENESS, SqlLimits
from survey.errors import SettingsError
from survey.text import counted, format_bytes

#: Seconds for which a query waits for others to end.
WAIT_SECONDS = 5.0

#: Queries that wait, run, or whose results are taken: each may take temporary space.
MOST_QUERIES = 16

#: Bytes of a result that needs no file.
_BYTES_IN_MEMORY = 1 << 20

#: A result on its way.
Result = IO[bytes]


class Queries:
    """Runs queries of clients.

    Parameters
    ----------
    home : Home
        What they are about.
    limits : SqlLimits
        What they may take.
    """

    def __init__(self, home: Home, limits: SqlLimits) -> None:
        self._home, self._limits = home, limits
        self._running = asyncio.Semaphore(limits.sql_at_once)
        #: Queries take long: in the threads of all requests they would keep readers waiting.
        self._threads = ThreadPoolExecutor(limits.sql_at_once, "query")
        self._present = 0
        #: Processes that wait for a query, those that start, and whether there are to be any.
        self._waiting: deque[Popen[bytes]] = deque()
        self._starting: set[Future[Popen[bytes]]] = set()
        self._keeps = False
        #: Queries that run.
        self._going = 0

    @property
    def most_rows(self) -> int:
        """The most rows that a result may have."""
        return self._limits.sql_rows

    def prepare(self) -> None:
        """Keep as many processes ready as queries may run: they have their libraries loaded."""
        self._keeps = True
        self._refill()

    def close(self) -> None:
        """End the processes that wait."""
        self._keeps = False
        self._threads.shutdown(cancel_futures=True)
        while self._waiting:
            with self._waiting.pop() as process:
                process.kill()

    def _refill(self) -> None:
        """Start processes until as many wait as queries may run beside those that do."""
        present = self._going + len(self._waiting) + len(self._starting)
        for _ in range(self._limits.sql_at_once - present if self._keeps else 0):
            future = self._threads.submit(query_process, NICENESS)
            self._starting.add(future)
            future.add_done_callback(self._started)

    def _started(self, future: Future[Popen[bytes]]) -> None:
        if not future.cancelled() and not future.exception():
            self._waiting.append(future.result())
        self._starting.discard(future)

    def _ready(self) -> Popen[bytes] | None:
        """Return a process that waits, if there is one."""
        while self._waiting:
            process = self._waiting.popleft()
            if process.poll() is None:
                return process
            with process:
                # It was ended by others: its pipes are closed.
                pass
        return None

    @asynccontextmanager
    async def room(self) -> AsyncIterator[Result]:
        """Give room for a result, until it is taken.

        Raises
        ------
        Unavailable
            If there is none now.
        """
        if self._present >= MOST_QUERIES:
            raise _busy(f"{MOST_QUERIES} queries are here already")
        self._present += 1
        try:
            with SpooledTemporaryFile(_BYTES_IN_MEMORY) as file:
                yield file
        finally:
            self._present -= 1

    async def run(
        self,
        request: Request,
        sql: str,
        format: ResultFormat,  # noqa: A002
        rows: int | None,
        result: Result,
    ) -> None:
        """Write the result of a statement into a file; the query ends when its client goes away.

        Parameters
        ----------
        request : Request
            What asks; its body is read.
        sql : str
            One statement; it may be anyone's.
        format : {"json", "csv", "parquet", "arrow"}
            The format of the result.
        rows : int, optional
            Its first so many rows; by default all of them.
        result : binary file
            Where.

        Raises
        ------
        SettingsError
            If the statement is wrong, more than one, not allowed, or takes too much.
        Unavailable
            If too many others run.
        """
        most = self._limits.sql_rows
        if rows is not None and rows > most:
            raise SettingsError(
                f"limit is {rows:,}, allowed are {most:,}", hint="ask for fewer rows"
            )
        limits = self._limits.of_query(most + 1 if rows is None else rows)
        try:
            async with self._turn():
                query = SqlQuery(self._home, sql, format, limits, process=self._ready())
                async with ended_with_client(request, query.end):
                    loop = asyncio.get_running_loop()
                    await loop.run_in_executor(self._threads, self._collect, query, result)
        finally:
            self._refill()

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._running.acquire()
        except TimeoutError:
            raise _busy(
                f"{counted(self._limits.sql_at_once, 'other query', 'other queries')} run"
            ) from None
        self._going += 1
        try:
            yield
        finally:
            self._going -= 1
            self._running.release()

    def _collect(self, query: SqlQuery, result: Result) -> None:
        most_bytes = int(self._limits.sql_space * 1e9)
        with closing(iter(query)) as pieces:
            for piece in pieces:
                result.write(piece)
                if result.tell() > most_bytes:
                    raise SettingsError(
                        f"the result takes more than {format_bytes(most_bytes)}",
                        hint="take fewer rows or columns, or ask for it as Parquet",
                    )
        if query.rows > self._limits.sql_rows:
            raise SettingsError(
                f"the result has more than {counted(self._limits.sql_rows, 'row')}",
                hint="aggregate in SQL, or take the first ones with LIMIT",
            )


@asynccontextmanager
async def ended_with_client(request: Request, end: Callable[[], object]) -> AsyncIterator[None]:
    """End what is done for a client when it goes away, and at the end in any case.

    Parameters
    ----------
    request : Request
        What asks; its body is read.
    end : callable
        Ends it.
    """

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        end()

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        end()
        watching.cancel()


def _busy(reason: str) -> Unavailable:
    return Unavailable(reason, "ask again in a while", 5)
