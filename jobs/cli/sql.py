"""``survey sql``: any query over what was measured, also while a scan runs."""

from __future__ import annotations

import typer

from analysis.option_fields import option
from jobs.cli.output import TableFileOptions, terminal_width
from jobs.cli.verb import DEFAULT_HOME, HomeOption, verb
from jobs.operations.sql_query import MEMORY_GB, TIMEOUT_SECONDS


@verb
def sql(
    *,
    query: str = option(
        ..., "One SQL statement, or - to read standard input.", metavar="QUERY", positional=True
    ),
    timeout: float = option(
        TIMEOUT_SECONDS, "Seconds after which the query is ended.", metavar="SECONDS"
    ),
    memory: float = option(MEMORY_GB, "GB of memory that the query may take.", metavar="GB"),
    home: HomeOption = DEFAULT_HOME,
    table: TableFileOptions,
) -> None:
    """Query what was measured: runs, batch_scores, signatures, layer_scores, failures.

    The query reads; it can neither change the store nor reach files or the network. It runs in a
    process of its own, and its result is written as it comes: errors may follow rows.
    """
    from catalog.open_home import open_home
    from jobs.operations.sql_query import QueryLimits, SqlQuery

    text = typer.get_text_stream("stdin").read() if query == "-" else query
    limits = QueryLimits(timeout, memory)
    width = None if table.output else terminal_width()
    table.write_query(SqlQuery(open_home(home, create=False), text, table.format, limits, width))
