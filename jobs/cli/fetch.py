"""``survey fetch``: get the files a survey needs, before it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from jobs.cli.app import (
    SOME_FAILED,
    FormatOption,
    HomeOption,
    app,
    chosen_format,
    chosen_home,
    complain,
    guarded,
)
from jobs.cli.survey_options import (
    CheckpointOption,
    DatasetOption,
    FileArgument,
    ModelOption,
    OfflineOption,
    definition_of,
)


@app.command("fetch")
@guarded
def fetch(
    context: typer.Context,
    file: FileArgument = None,
    model: ModelOption = None,
    checkpoint: CheckpointOption = None,
    dataset: DatasetOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list what is needed and what is here.")
    ] = False,
    offline: OfflineOption = False,
    home: HomeOption = None,
    format: FormatOption = None,  # noqa: A002
) -> None:
    """Fetch the weights and datasets of a survey, such as --model paper-ssl."""
    from catalog.home import Home
    from jobs.cli.output import emit
    from jobs.cli.signals import termination_interrupts
    from jobs.planning.prefetch import announcement, fetch_needed, inventory, needed
    from jobs.scan.progress_display import progress_reporter

    # Without a dataset named, only weights are meant: the default one comes with this package.
    definition = definition_of(file, model, checkpoint, dataset)
    files = needed(definition)
    path = chosen_home(context, home)
    # A dry run writes nothing, and needs no home: without one, nothing is here.
    opened = Home(path.absolute()) if dry_run else Home.open(path, create=True)
    problems = {}
    if not dry_run:
        if told := announcement(files, opened):
            typer.echo(told, err=True)
        with termination_interrupts(), progress_reporter() as reporter:
            problems = fetch_needed(files, opened, reporter.fetching, offline=offline)
    emit(inventory(files, opened), chosen_format(context, format))
    for problem in problems.values():
        complain(problem.message, problem.hint)
    if problems:
        raise typer.Exit(SOME_FAILED)
