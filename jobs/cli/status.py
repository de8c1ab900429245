"""``survey status``: the jobs of a home and their progress, from any terminal."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from analysis.option_fields import option
from jobs.cli.output import TableOptions, emit_rows
from jobs.cli.terminal import say
from jobs.cli.verb import DEFAULT_HOME, HomeOption, verb

#: Seconds between two refreshes.
WATCH_SECONDS = 2.0

#: Most jobs in a table that a person reads; running and failed ones come first.
SHOWN = 40


@verb
def status(
    *,
    watch: bool = option(False, "Refresh the table every two seconds, until Ctrl-C."),
    all_: bool = option(False, f"Show all jobs, not only the first {SHOWN}.", flags=("--all",)),
    home: HomeOption = DEFAULT_HOME,
    table: TableOptions,
) -> None:
    """Show all jobs and how far each is, with their errors; also while a scan runs.

    Running and failed jobs come first.
    """
    shown = None if all_ or table.format != "table" else SHOWN
    _show(home, table, shown)
    # Ctrl-C is how watching ends: nothing was interrupted.
    with suppress(KeyboardInterrupt):
        from rich.console import Console

        while watch:
            time.sleep(WATCH_SECONDS)
            # Escape codes of a terminal, and nothing elsewhere.
            Console().clear()
            _show(home, table, shown)


def _show(home: Path, table: TableOptions, shown: int | None) -> None:
    from catalog.open_home import open_home
    from jobs.operations.status import COLUMNS, standing

    jobs = standing(open_home(home, create=False), shown)
    emit_rows(jobs.rows, COLUMNS, table.format)
    if len(jobs.rows) < jobs.jobs:
        say(f"{len(jobs.rows)} of {jobs.jobs} jobs shown; --all shows every one")
    say(jobs.summary)
