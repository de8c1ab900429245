"""``survey datasets``: the datasets that can be measured, and their sources."""

from __future__ import annotations

from analysis.option_fields import option
from jobs.cli.output import TableOptions
from jobs.cli.verb import DEFAULT_HOME, HomeOption, verb


@verb
def datasets(
    *,
    pattern: str | None = option(
        None, "Dataset, or glob such as 'cifar*'.", metavar="PATTERN", positional=True
    ),
    here: bool = option(False, "List only datasets whose files are in the home."),
    home: HomeOption = DEFAULT_HOME,
    table: TableOptions,
) -> None:
    """List the kinds of datasets, what they hold, and whether their files are here."""
    from catalog.listing import list_datasets

    table.write(list_datasets(home, pattern, here=here))
