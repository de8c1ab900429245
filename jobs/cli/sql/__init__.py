"""``survey sql``: any query over what was measured, also while a scan runs."""

from __future__ import annotations

import sys
from pathlib import Path

from analysis.option_fields import option
from jobs.cli.output import TableFileOptions, terminal_width
from jobs.cli.server import ServerOptions
from jobs.cli.sql.statement import statement_of
from jobs.cli.verb import DEFAULT_HOME, HomeOption, verb
from jobs.operations.sql_query import MEMORY_GB, TIMEOUT_SECONDS
from survey.errors import SettingsError


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
        None,
        "File or pipe that holds the statement; - is standard input.",
        none="the statement given",
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

    typed = query is None and file is None and sys.stdin.isatty()
    own = {"timeout": timeout != TIMEOUT_SECONDS, "memory": memory != MEMORY_GB}
    if (client := server.client(**own)) is not None:
        if files:
            raise SettingsError("--server excludes --with", hint="a service reads no file of yours")
        if typed:
            raise SettingsError(
                "--server takes one statement and has no prompt", hint="give it, or --file FILE"
            )
        from catalog.store.plain_types import plain_table

        table.write(
            plain_table(client.sql(statement_of(query, file, timeout), limit), table.format)
        )
        return
    limits = QueryLimits(timeout, memory, rows=limit)
    opened, tables = open_home(home, create=False), user_tables(files or ())

    def ask(statement: str, *, cut: bool = True) -> SqlQuery:
        width = terminal_width() if cut and not table.output else None
        return SqlQuery(opened, statement, table.format, limits, width, tables)

    if typed and sys.stdout.isatty():
        from platformdirs import user_state_path

        from jobs.cli.sql.prompt import run_prompt

        if table.output is not None:
            raise SettingsError(
                "--output is for one statement", hint="give it: survey sql -o FILE 'SELECT ...'"
            )
        run_prompt(ask, table.write_query, user_state_path("model-zoo-survey") / "sql_history")
    else:
        table.write_query(ask(statement_of(query, file, timeout)))
