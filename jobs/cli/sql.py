"""``survey sql``: any query over what was measured, also while a scan runs."""

from __future__ import annotations

import typer

from analysis.option_fields import option
from jobs.cli.output import TableFileOptions
from jobs.cli.verb import DEFAULT_HOME, HomeOption, verb


@verb
def sql(
    *,
    query: str = option(
        ..., "One SQL statement, or - to read standard input.", metavar="QUERY", positional=True
    ),
    home: HomeOption = DEFAULT_HOME,
    table: TableFileOptions,
) -> None:
    """Query what was measured: runs, batch_scores, signatures, layer_scores, failures.

    The query reads; it can neither change the store nor reach files or the network.
    """
    from catalog.open_home import open_home
    from catalog.store.reader import query as ask

    text = typer.get_text_stream("stdin").read() if query == "-" else query
    table.write(ask(open_home(home, create=False), text))
