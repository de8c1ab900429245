"""``survey fetch``: get the files a survey needs, before it runs."""

from __future__ import annotations

import math

import typer

from analysis.option_fields import option
from jobs.cli.output import TableOptions
from jobs.cli.survey_options import ModelOptions, OfflineOption
from jobs.cli.terminal import complain, say
from jobs.cli.verb import DEFAULT_HOME, SOME_FAILED, HomeOption, RegistryOption, verb


@verb
def fetch(
    *,
    survey: ModelOptions,
    dry_run: bool = option(False, "List the files and which are here; fetch none."),
    offline: OfflineOption = False,
    registry: RegistryOption = None,
    home: HomeOption = DEFAULT_HOME,
    table: TableOptions,
) -> None:
    """Fetch the weights and datasets of a survey, such as --model paper-ssl."""
    from catalog.downloads import FileStore
    from catalog.home import Home
    from catalog.open_home import open_home
    from jobs.planning.prefetch import announcement, inventory, listings, needed, supply
    from jobs.scan.interruption import termination_interrupts
    from jobs.scan.progress_display import progress_reporter

    # Without a dataset named, only weights are meant: the default one comes with this package.
    definition = survey.definition()
    # A dry run writes nothing, and needs no home: without one, nothing is here.
    place = Home(home.absolute())
    opened = place if dry_run else open_home(home, create=True, registry_url=registry)
    store = FileStore(opened.files, offline=offline or dry_run)
    problems = {}
    if not dry_run:
        # Offline what is missing is refused.
        if not offline and (line := announcement(needed(definition, store.find), store)):
            say(line)
        with termination_interrupts(), progress_reporter() as reporter:
            problems = supply(definition, store, reporter.fetching, most_bytes=math.inf)
    with listings(store, ask=dry_run and not offline) as find:
        files = needed(definition, find)
    table.write(inventory(files, store))
    for problem in problems.values():
        complain(problem.message, problem.hint)
    if problems:
        raise typer.Exit(SOME_FAILED)
