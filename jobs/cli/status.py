"""``survey status``: what a scan is doing, from any terminal."""

from __future__ import annotations

import typer

from jobs.cli.app import FormatOption, HomeOption, app, chosen_format, chosen_home, guarded


@app.command("status")
@guarded
def status(
    context: typer.Context,
    home: HomeOption = None,
    format: FormatOption = None,  # noqa: A002
) -> None:
    """Show every job: waiting, running, done or failed, and how far it is."""
    from catalog.home import Home
    from jobs.cli.output import emit
    from jobs.standing import standing

    found = standing(Home.open(chosen_home(context, home), create=False))
    emit(found.table, chosen_format(context, format))
    typer.echo(found.summary, err=True)
