"""Anyone's SQL: a query runs in a process of its own, which is ended when it takes too long.

DuckDB cannot be interrupted within one call of a function, and its limit on memory does not count
everything. A process can be ended at any moment, and the kernel bounds what it takes.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from io import BufferedReader
from typing import IO, Any, NoReturn, cast

from catalog.home import Home
from catalog.store.user_tables import UserTable
from jobs.choices import ResultFormat
from survey.errors import QueryError, SettingsError, StoreError, SurveyError
from survey.extensions import announced
from survey.text import format_bytes, format_duration

#: Seconds a query may take, until the last of its result is taken.
TIMEOUT_SECONDS = 300.0

#: Memory a query may take, in GB.
MEMORY_GB = 2.0

#: The least and the most that either may be set to.
LIMITS = (0.1, 86_400.0)

#: Rows that aligned text shows.
ROWS_SHOWN = 1000

# The folders are those that this process imports from, and not the current one unless it is among
# them.
_START = (
    "import json, os, sys; sys.path[:] = json.loads(sys.argv[1]); os.nice(int(sys.argv[2]));"
    " from jobs.operations.sql_worker import main; main()"
)

_COMMAND = (sys.executable, "-I", "-c", _START)

_PIECE_BYTES = 1 << 16

_ERRORS: dict[str, type[SurveyError]] = {
    e.__name__: e for e in (QueryError, SettingsError, StoreError)
}


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What a query may take."""

    #: Seconds until the last of its result is taken, from when the libraries are loaded.
    seconds: float = TIMEOUT_SECONDS
    #: GB of memory, beside what the program and the store's waiting segments take.
    memory_gb: float = MEMORY_GB
    #: Rows that aligned text shows.
    lines: int = ROWS_SHOWN
    #: Rows of the result; None for all of them.
    rows: int | None = None
    #: Whether the result names files without their folders.
    without_paths: bool = False
    #: By how much its priority is lowered.
    niceness: int = 0
    #: What the names of the options that set these limits begin with.
    options: str = "--"

    def __post_init__(self) -> None:
        least, most = LIMITS
        for name, value in (("timeout", self.seconds), ("memory", self.memory_gb)):
            if not least <= value <= most:
                raise SettingsError(
                    f"{self.options}{name} is {value:g}, allowed is {least:g} to {most:,.0f}"
                )


def query_process(niceness: int = 0) -> subprocess.Popen[bytes]:
    """Start a process that loads what queries need, and waits for one.

    It ends where whoever started it does.
    """
    return subprocess.Popen(  # noqa: S603 - this interpreter, and nothing of a statement
        [*_COMMAND, json.dumps(sys.path), str(niceness)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Ctrl-C is for this process, which ends the other. Linux compares the priorities of
        # processes of one session alone.
        process_group=0,
    )


class SqlQuery:
    """A query of everything measured so far; iterating over it gives its result in pieces.

    Parameters
    ----------
    home : Home
        Where the store lies.
    sql : str
        One statement; it may be anyone's.
    format : {"table", "json", "csv", "parquet", "arrow"}
        The format of the result.
    limits : QueryLimits, optional
        What it may take.
    width : int, optional
        Terminal cells that a line of aligned text may take.
    tables : sequence of UserTable, optional
        Files of the user's own that it may join.
    process : subprocess.Popen, optional
        A ``query_process`` that waits for it; by default one is started.

    Attributes
    ----------
    rows : int
        The rows of the result, once it is all taken.
    shown : int
        Those that aligned text shows.
    damage : str or None
        Why labels and tags are missing from it, where they cannot be read.
    """

    def __init__(
        self,
        home: Home,
        sql: str,
        format: ResultFormat,  # noqa: A002
        limits: QueryLimits | None = None,
        width: int | None = None,
        tables: Sequence[UserTable] = (),
        process: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self._home, self._limits = home, limits or QueryLimits()
        files = {table.name: str(table.path) for table in tables}
        self._asked: dict[str, Any] = {"path": str(home.path), "sql": sql, "files": files}
        self._asked |= {"format": format, "width": width, "registry": home.registry_url}
        self.rows = self.shown = 0
        self.damage: str | None = None
        self._waiting = self._process = process
        self._ended = False

    def request(self, seconds: float, *, metrics: bool = False) -> str:
        """Return what its process is asked, as JSON.

        Parameters
        ----------
        seconds : float
            What it may take.
        metrics : bool, default False
            Whether installed metrics that were never stored are columns, too.

        Raises
        ------
        SettingsError
            If the statement is no text that can be encoded.
        """
        try:
            self._asked["sql"].encode()
        except UnicodeEncodeError as error:
            message = f"letter {error.start + 1} of the statement cannot be encoded as UTF-8"
            raise SettingsError(message, hint="write it anew") from None
        asked = self._asked | asdict(self._limits) | {"seconds": seconds, "metrics": metrics}
        return json.dumps(asked)

    def end(self) -> None:
        """End the query, from any thread: whoever iterates over it gets a ``SettingsError``."""
        self._ended = True
        if self._process is not None:
            self._process.kill()

    def __iter__(self) -> Generator[bytes]:
        """Yield the result in pieces; the process ends where the iterator is closed early.

        Raises
        ------
        SettingsError
            If the statement is wrong, more than one, not allowed, or takes too much.
        StoreError
            If the store cannot be read.
        """
        report = yield from self._run(self._limits.seconds)
        if report.get("unknown") and announced("metric"):
            # The name may be the column of an installed metric that was never stored. Packages are
            # loaded only now.
            left = self._limits.seconds - report["seconds"]
            report = yield from self._run(max(left, LIMITS[0]), metrics=True)
        if kind := report.get("error"):
            raise _ERRORS[kind](report["message"], hint=report["hint"])
        self.rows, self.shown, self.damage = report["rows"], report["shown"], report["damage"]

    def _run(self, seconds: float, metrics: bool = False) -> Generator[bytes, None, dict[str, Any]]:
        waiting, self._waiting = self._waiting, None
        with waiting or query_process(self._limits.niceness) as process:
            given, result, report = process.stdin, process.stdout, process.stderr
            self._process = process
            try:
                if self._ended:
                    process.kill()
                with suppress(BrokenPipeError), cast("IO[bytes]", given) as stream:
                    stream.write(self.request(seconds, metrics=metrics).encode())
                while piece := cast("BufferedReader", result).read1(_PIECE_BYTES):
                    yield piece
                last = cast("IO[bytes]", report).read().decode(errors="replace").splitlines()[-1:]
                process.wait()
            finally:
                process.kill()
        if process.returncode == 0:
            answer: dict[str, Any] = json.loads(last[0])
            return answer if answer.get("error") != "memory" else self._refuse_memory()
        return self._explain(-process.returncode, "".join(last))

    def _explain(self, ended_by: int, last: str) -> NoReturn:
        """Raise what ended the query's process: a signal, or else what it wrote last."""
        if self._ended:
            raise SettingsError("the query was ended before its result was there")
        if ended_by == signal.SIGALRM:
            raise SettingsError(
                f"the query took longer than {format_duration(self._limits.seconds)}",
                hint=f"let it read or give less, or allow it more with {self._option('timeout')}",
            )
        if ended_by in (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS):
            self._refuse_memory()
        raise StoreError(f"the query's process ended: {last}", hint="run `survey doctor`")

    def _option(self, name: str) -> str:
        return self._limits.options + name

    def _refuse_memory(self) -> NoReturn:
        raise SettingsError(
            f"the query takes more memory than {format_bytes(int(self._limits.memory_gb * 1e9))}",
            hint="let it give fewer or shorter values, or allow it more with "
            + self._option("memory"),
        )
