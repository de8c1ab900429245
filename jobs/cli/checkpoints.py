"""``survey checkpoints``: which published weights there are, for what, and on which terms."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs.cli.app import FormatOption, HomeOption, app, chosen_format, chosen_home, guarded
from survey.text import counted


@app.command("checkpoints")
@guarded
def checkpoints(
    context: typer.Context,
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="[PATTERN]",
            help="Weights, an architecture, a glob or a set, such as 'ssl:*'.",
            show_default=False,
        ),
    ] = None,
    family: Annotated[str | None, typer.Option("--family", help="Only this family.")] = None,
    protocol: Annotated[
        str | None, typer.Option("--protocol", help="Only so reported: supervised, linear, ...")
    ] = None,
    least_top1: Annotated[
        float | None, typer.Option("--min-top1", help="At least this accuracy, from 0 to 1.")
    ] = None,
    wide: Annotated[
        bool, typer.Option("--wide", help="With addresses, terms, evidence and notes.")
    ] = False,
    home: HomeOption = None,
    format: FormatOption = None,  # noqa: A002
) -> None:
    """List published weights with their reported accuracy, and why some cannot be loaded."""
    from catalog.home import Home
    from catalog.listing import CHECKPOINT_HEADINGS, WantedWeights, list_checkpoints
    from jobs.cli.output import emit, headed

    cache = Home(chosen_home(context, home).absolute()).cache
    how = chosen_format(context, format)
    wanted = WantedWeights(pattern, family, protocol, least_top1)
    found = list_checkpoints(wanted, cache)
    emit(found if wide or how != "table" else headed(found, CHECKPOINT_HEADINGS), how)
    typer.echo(counted(found.num_rows, "checkpoint"), err=True)
