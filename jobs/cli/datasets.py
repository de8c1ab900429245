"""``survey datasets``: which images can be measured, and where they come from."""

from __future__ import annotations

import typer

from jobs.cli.app import FormatOption, HomeOption, app, chosen_format, chosen_home, guarded


@app.command("datasets")
@guarded
def datasets(
    context: typer.Context,
    home: HomeOption = None,
    format: FormatOption = None,  # noqa: A002
) -> None:
    """List the kinds of datasets, what they hold, and whether their files are here."""
    from jobs.cli.output import emit
    from jobs.listing import list_datasets

    emit(list_datasets(chosen_home(context, home)), chosen_format(context, format))
