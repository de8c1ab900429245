"""``survey plan``: what would run, what is done, and how long it may take. Runs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from jobs.cli.app import FormatOption, HomeOption, app, chosen_format, chosen_home, guarded
from jobs.cli.survey_options import declares

if TYPE_CHECKING:
    from jobs.planning.definition import Definition


@app.command("plan")
@guarded
@declares
def plan(
    context: typer.Context,
    definition: Definition,
    workers: Annotated[int, typer.Option("--workers", help="How many there will be.")] = 1,
    device: Annotated[
        Literal["cpu", "cuda"], typer.Option("--device", help="What they compute on.")
    ] = "cpu",
    home: HomeOption = None,
    format: FormatOption = None,  # noqa: A002
) -> None:
    """Show what a survey would measure, what is done already, and an estimate."""
    from jobs.cli.output import emit
    from jobs.operations.preview import forecast

    foreseen = forecast(chosen_home(context, home), definition, device=device, workers=workers)
    emit(foreseen.table(), chosen_format(context, format))
    typer.echo(foreseen.summary(), err=True)
