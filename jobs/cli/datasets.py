"""``survey datasets``: the images that can be measured, and where they come from."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs.cli.output import TableOptions
from jobs.cli.verb import DEFAULT_HOME, HomeOption, verb


@verb
def datasets(
    *,
    pattern: Annotated[
        str | None,
        typer.Argument(metavar="PATTERN", help="Dataset, or glob such as 'cifar*'."),
    ] = None,
    here: Annotated[
        bool, typer.Option("--here", help="List only datasets whose files are in the home.")
    ] = False,
    home: HomeOption = DEFAULT_HOME,
    table: TableOptions,
) -> None:
    """List the kinds of datasets, what they hold, and whether their files are here."""
    from catalog.listing import list_datasets

    table.write(list_datasets(home, pattern, here=here))
