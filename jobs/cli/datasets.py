"""``survey datasets``: which images can be measured, and where they come from."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs.cli.app import FormatOption, HomeOption, app, chosen_format, chosen_home, guarded


@app.command("datasets")
@guarded
def datasets(
    context: typer.Context,
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="[PATTERN]", help="A dataset, or a glob such as 'cifar*'.", show_default=False
        ),
    ] = None,
    here: Annotated[
        bool, typer.Option("--here", help="Only those that lack no files in the home.")
    ] = False,
    home: HomeOption = None,
    format: FormatOption = None,  # noqa: A002
) -> None:
    """List the kinds of datasets, what they hold, and whether their files are here."""
    from catalog.listing import list_datasets
    from jobs.cli.output import emit

    found = list_datasets(chosen_home(context, home), pattern, here=here)
    emit(found, chosen_format(context, format))
