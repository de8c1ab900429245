"""``survey show``: one signature, site by site."""

from __future__ import annotations

from analysis.option_fields import option
from jobs.cli.output import TableOptions
from jobs.cli.terminal import say
from jobs.cli.verb import DEFAULT_HOME, HomeOption, verb

#: What the table shows of a site, and under which heading where a column's own is too wide.
_SITES = {
    **dict.fromkeys(("site", "site_name", "activation", "role", "repeat")),
    "graph_depth": "depth",
    "spatial": None,
    "channels": "c",
    "affinity": None,
    "affinity_se": "se",
    "without_score": "missing",
    "flags": None,
}


@verb
def show(
    *,
    run: str = option(..., "Run id, or its beginning.", metavar="RUN", positional=True),
    metrics: bool = option(False, "Show the other metrics in the table; other formats have all."),
    home: HomeOption = DEFAULT_HOME,
    table: TableOptions,
) -> None:
    """Show one run: its signature site by site, averaged over batches.

    The table has the columns that fit a terminal; every other format has all of them.
    """
    from catalog.open_home import open_home
    from catalog.store.queries import run_sites
    from catalog.store.reader import run_row
    from jobs.operations.flags import flag_lines
    from jobs.operations.show import headline, metric_columns

    opened = open_home(home, create=False)
    row = run_row(opened, run)
    say(*headline(opened, row))
    sites = run_sites(opened, row.run_id)
    say(*flag_lines(opened, [row.run_id]))
    if metrics:
        columns, sites = metric_columns(sites)
        table.write(sites, dict.fromkeys(columns))
    else:
        table.write(sites, _SITES)
