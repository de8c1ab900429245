"""``survey sql``: any query over what was measured, also while a scan runs."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from analysis.option_fields import option
from catalog.bounds import TooLargeError, read_at_most
from jobs.cli.output import TableFileOptions, terminal_width
from jobs.cli.server import ServerOptions
from jobs.cli.verb import DEFAULT_HOME, HomeOption, verb
from jobs.operations.sql_query import MEMORY_GB, TIMEOUT_SECONDS
from survey.errors import SettingsError

#: Bytes of the longest statement that is read from a file; a device may have no end.
_MOST_BYTES = 2**24


@verb
def sql(
    *,
    query: str | None = option(
        None,
        "One SQL statement, or - to read standard input; without one a terminal gets a prompt.",
        metavar="QUERY",
        positional=True,
    ),
    file: Path | None = option(
        None, "File that holds the statement; - is standard input.", none="the statement given"
    ),
    limit: int | None = option(
        None, "The most rows of the result.", minimum=0, metavar="ROWS", none="all"
    ),
    files: tuple[str, ...] = option(
        (),
        "A CSV, TSV or Parquet file that the query may join by a name; may be repeated.",
        flags=("--with",),
        metavar="NAME=FILE",
        repeated=True,
        none="none",
    ),
    timeout: float = option(
        TIMEOUT_SECONDS, "Seconds after which the query is ended.", metavar="SECONDS"
    ),
    memory: float = option(MEMORY_GB, "GB of memory that the query may take.", metavar="GB"),
    server: ServerOptions,
    home: HomeOption = DEFAULT_HOME,
    table: TableFileOptions,
) -> None:
    """Query what was measured: latest_signatures, models, signatures, runs, batch_scores and more.

    The query reads; it can neither change the store nor reach other files or the network. It runs
    in a process of its own, and its result is written as it comes: errors may follow rows.
    docs/queries.md has twenty queries to begin with, docs/schema.md every column.
    """
    from catalog.open_home import open_home
    from catalog.store.user_tables import user_tables
    from jobs.operations.sql_query import QueryLimits, SqlQuery

    if (client := server.client()) is not None:
        if files:
            raise SettingsError("--server excludes --with", hint="a service reads no file of yours")
        table.write(client.sql(_statement(query, file), limit))
        return
    limits = QueryLimits(timeout, memory, rows=limit)
    opened, tables = open_home(home, create=False), user_tables(files or ())

    def answer(statement: str, *, cut: bool = True) -> None:
        width = terminal_width() if cut and not table.output else None
        table.write_query(SqlQuery(opened, statement, table.format, limits, width, tables))

    if query is None and file is None and sys.stdin.isatty() and sys.stdout.isatty():
        from platformdirs import user_state_path

        from jobs.cli.sql.prompt import run_prompt

        if table.output is not None:
            raise SettingsError(
                "--output is for one statement", hint="give it: survey sql -o FILE 'SELECT ...'"
            )
        run_prompt(answer, user_state_path("model-zoo-survey") / "sql_history")
    else:
        answer(_statement(query, file))


def _statement(query: str | None, file: Path | None) -> str:
    """Return the statement given, or that of a file or of standard input."""
    if query is not None and file is not None:
        raise SettingsError("there are two statements: QUERY and --file", hint="give one of them")
    if file is None and query not in (None, "-"):
        return query
    if file is None or str(file) == "-":
        return typer.get_text_stream("stdin").read()
    try:
        with file.open("rb") as stream:
            return read_at_most(stream, _MOST_BYTES, str(file)).decode()
    except OSError as error:
        raise SettingsError(f"--file {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"--file {file} is no text in UTF-8") from None
    except TooLargeError as error:
        raise SettingsError(f"--file {error}", hint="name a file of one statement") from None
