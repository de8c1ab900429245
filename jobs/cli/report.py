"""``survey report``: one self-contained folder about what was measured."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from analysis.data.selection import Selection
from analysis.figure_style import colour_option
from analysis.option_fields import option
from jobs.cli.terminal import say
from jobs.cli.verb import DEFAULT_HOME, AllRunsOption, HomeOption, verb
from survey.text import counted


@partial(verb, interrupted="nothing was written; what was measured is untouched")
def report(
    *,
    out: Path = option(..., "Folder to write; an earlier report is replaced."),
    selection: Selection,
    title: str | None = option(None, "Heading of the overview.", none="A survey of N models"),
    color_by: str | None = colour_option(),
    all_runs: AllRunsOption = False,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Write everything the data allow into a folder that opens in a browser without network.

    A page for every model, and pages of clusters, correlations, regressions and comparisons, each
    figure with its data and SQL.
    """
    from analysis.data.provenance import banner
    from analysis.report import write_report
    from jobs.scan.progress_display import watched

    runs = replace(selection, newest=not all_runs)
    written = write_report(home, out, runs, title, watched, color_by)
    for name, reason in written.absent:
        say(f"no page about {name.lower()}: {reason}")
    for name, reason in written.undrawn:
        say(f"no drawing of {name}: {reason}")
    if warning := banner(written.mixed):
        say(f"{warning}.")
    failed = f", {written.failed} of them failed" if written.failed else ""
    say(f"{counted(written.pages, 'page')} about {counted(written.runs, 'run')}{failed}")
    say(str(written.index), err=False)
