"""``survey status``: what a scan is doing, from any terminal."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from jobs.choices import Format
from jobs.cli.app import FormatOption, HomeOption, app, chosen_format, chosen_home, guarded

#: Seconds between two looks.
WATCH_SECONDS = 2.0

#: Jobs in the table for a reader, those that go on or went wrong first.
SHOWN = 40


@app.command("status")
@guarded
def status(
    context: typer.Context,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again every two seconds, until Ctrl-C.")
    ] = False,
    all_: Annotated[
        bool, typer.Option("--all", help="Every job in the table, however many there are.")
    ] = False,
    home: HomeOption = None,
    format: FormatOption = None,  # noqa: A002
) -> None:
    """Show the jobs: running, failed, parked, waiting, cancelled, done; and how far they are."""
    place, form = chosen_home(context, home), chosen_format(context, format)
    shown = None if all_ or form != "table" else SHOWN
    _look(place, form, shown)
    # Ctrl-C is how watching ends: nothing was interrupted.
    with suppress(KeyboardInterrupt):
        while watch:
            time.sleep(WATCH_SECONDS)
            # Nothing but the escape codes of a terminal, and none elsewhere.
            Console().clear()
            _look(place, form, shown)


def _look(home: Path, format: Format, shown: int | None) -> None:  # noqa: A002
    from catalog.home import Home
    from jobs.cli.output import emit_rows
    from jobs.operations.status import COLUMNS, standing

    found = standing(Home.open(home, create=False), shown)
    emit_rows(found.rows, COLUMNS, format)
    if len(found.rows) < found.jobs:
        typer.echo(f"{len(found.rows)} of {found.jobs} jobs shown; --all shows every one", err=True)
    typer.echo(found.summary, err=True)
