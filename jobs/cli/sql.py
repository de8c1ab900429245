"""``survey sql``: any query over what was measured, also while a scan runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.app import FormatOption, HomeOption, app, chosen_format, chosen_home, guarded
from survey.text import counted


@app.command("sql")
@guarded
def sql(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="One SQL statement; '-' reads standard input.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to a file.", show_default=False)
    ] = None,
    home: HomeOption = None,
    format: FormatOption = None,  # noqa: A002
) -> None:
    """Query what was measured: runs, batch_scores, signatures, layer_scores, failures.

    The query reads; it can neither change the store nor reach files or the network.
    """
    from catalog.home import Home
    from catalog.store.reader import query as ask
    from jobs.cli.output import emit

    text = typer.get_text_stream("stdin").read() if query == "-" else query
    table = ask(Home.open(chosen_home(context, home), create=False), text)
    emit(table, chosen_format(context, format, output), output)
    if output is not None:
        typer.echo(f"{counted(table.num_rows, 'row')} written to {output}", err=True)
