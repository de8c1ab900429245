"""``survey report``: one self-contained folder about what was measured."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.run_filters import Asked, analysing
from survey.text import counted

OutOption = Annotated[
    Path, typer.Option("--out", help="The folder to write; an earlier report is replaced.")
]
TitleOption = Annotated[
    str | None,
    typer.Option("--title", help="What stands at the top.  [default: A survey of N models]"),
]


@partial(analysing, without=("role", "format", "json", "output", "figure"))
def report(asked: Asked, out: OutOption, title: TitleOption = None) -> None:
    """Write everything the data allow into a folder that opens in a browser without network.

    A page for every model, and pages of clusters, correlations, regressions and comparisons, each
    figure with its data and SQL.
    """
    from analysis.data.comparability import mixed
    from analysis.report import write_report
    from jobs.scan.progress_display import watched

    watch = partial(watched, "pages of models")
    written = write_report(asked.home, out, asked.selection(), title, watch)
    for name, reason in written.absent:
        typer.echo(f"no page about {name.lower()}: {reason}", err=True)
    if warning := mixed(written.conditions):
        typer.echo(f"note: {warning}", err=True)
    failed = f", {written.failed} of them failed" if written.failed else ""
    pages, runs = counted(written.pages, "page"), counted(written.runs, "run")
    typer.echo(f"{pages} about {runs}{failed}", err=True)
    typer.echo(str(written.index))
