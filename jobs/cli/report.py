"""``survey report``: one self-contained folder about what was measured."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.data.selection import Selection
from analysis.option_fields import addressed, option
from jobs.cli.server import ServerOptions
from jobs.cli.terminal import say
from jobs.cli.verb import DEFAULT_HOME, AllRunsOption, HomeOption, verb
from jobs.operations.report_archive import ReportOptions
from survey.text import counted

if TYPE_CHECKING:
    from jobs.service_client import ServiceClient

#: Processes that make pages at most: each takes some 600 MB.
MOST_PROCESSES = 8


@partial(verb, interrupted="nothing was written; what was measured is untouched")
def report(
    *,
    out: Path = option(..., "Folder to write; an earlier report is replaced."),
    selection: Selection,
    options: ReportOptions,
    all_runs: AllRunsOption = False,
    server: ServerOptions,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Write everything the data allow into a folder that opens in a browser without network.

    A page for every model, and pages of clusters, correlations, regressions and comparisons, each
    figure with its data and SQL.
    """
    if (client := server.client()) is not None:
        asked = addressed(selection) | addressed(options) | {"all_runs": all_runs}
        _fetch(client, asked, out)
        return
    from analysis.data.provenance import banner
    from analysis.report import write_report
    from jobs.scan.progress_display import watched
    from survey.cores import local_cores

    runs = replace(selection, newest=not all_runs)
    processes = min(local_cores(), MOST_PROCESSES)
    written = write_report(home, out, runs, options.title, watched, options.color_by, processes)
    for name, reason in written.absent:
        say(f"no page about {name.lower()}: {reason}")
    for name, reason in written.undrawn:
        say(f"no drawing of {name}: {reason}")
    if warning := banner(written.mixed):
        say(f"{warning}.")
    failed = f", {written.failed} of them failed" if written.failed else ""
    say(f"{counted(written.pages, 'page')} about {counted(written.runs, 'run')}{failed}")
    say(str(written.index), err=False)


def _fetch(client: ServiceClient, asked: dict[str, Any], out: Path) -> None:
    """Write the report that a service makes."""
    from analysis.report.folder import require_free
    from jobs.operations.report_archive import unpack_report

    require_free(out)
    written = unpack_report(client.report(asked), out)
    say(f"a report about {counted(written.runs, 'run')}: {written.title}")
    say(str(out / "index.html"), err=False)
