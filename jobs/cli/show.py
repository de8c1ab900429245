"""``survey show``: one signature, site by site."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs.cli.app import FormatOption, HomeOption, app, chosen_format, chosen_home, guarded


@app.command("show")
@guarded
def show(
    context: typer.Context,
    run: Annotated[str, typer.Argument(help="A run's id, or the beginning of it.")],
    home: HomeOption = None,
    format: FormatOption = None,  # noqa: A002
) -> None:
    """Show one run: its signature site by site, with the spread over batches."""
    from catalog.home import Home
    from catalog.queries import run_sites
    from catalog.store import run_row
    from jobs.cli.output import emit
    from jobs.headline import headline

    opened = Home.open(chosen_home(context, home), create=False)
    found = run_row(opened, run)
    typer.echo(headline(found), err=True)
    emit(run_sites(opened, found.run_id), chosen_format(context, format))
