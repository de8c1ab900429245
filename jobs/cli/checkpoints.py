"""``survey checkpoints``: the published weights, their accuracy and their terms."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs.cli.output import TableOptions
from jobs.cli.verb import DEFAULT_HOME, HomeOption, verb
from survey.text import counted

#: Columns that a terminal shows, and their headings; other formats and --wide have all columns.
_HEADINGS: dict[str, str | None] = {
    **dict.fromkeys(("checkpoint", "architecture", "size")),
    "reported_top1": "top1",
    **dict.fromkeys(("protocol", "licence", "refusal")),
}


@verb
def checkpoints(
    *,
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="PATTERN",
            help="Weights, architecture, glob or set, such as 'ssl:*'.",
        ),
    ] = None,
    family: Annotated[
        str | None, typer.Option("--family", help="Family of the architectures.")
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            "--protocol", help="Protocol of the reported accuracy, such as supervised or linear."
        ),
    ] = None,
    least_top1: Annotated[
        float | None,
        typer.Option("--min-top1", help="Smallest reported top-1 accuracy, from 0 to 1."),
    ] = None,
    wide: Annotated[
        bool, typer.Option("--wide", help="Show addresses, terms, evidence and notes too.")
    ] = False,
    home: HomeOption = DEFAULT_HOME,
    table: TableOptions,
) -> None:
    """List published weights with their reported accuracy, and why some cannot be loaded."""
    from catalog.home import Home
    from catalog.listing import WantedWeights, list_checkpoints

    wanted = WantedWeights(pattern, family, protocol, least_top1)
    listed = list_checkpoints(wanted, Home(home.absolute()).cache)
    table.write(listed, None if wide else _HEADINGS)
    typer.echo(counted(listed.num_rows, "checkpoint"), err=True)
