"""``survey report``: one self-contained folder about what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jobs.cli.app import HomeOption, app, chosen_home, guarded
from jobs.cli.filters import (
    AllRunsOption,
    CheckpointOption,
    DatasetOption,
    FamilyOption,
    GroupOption,
    ModelOption,
    PoolingOption,
    SetOption,
    SourceOption,
)

OutOption = Annotated[
    Path, typer.Option("--out", help="The folder to write; an earlier report is replaced.")
]
TitleOption = Annotated[
    str | None,
    typer.Option("--title", help="What stands at the top.  [default: A survey of N models]"),
]


@app.command("report")
@guarded
def report(
    context: typer.Context,
    out: OutOption,
    title: TitleOption = None,
    model: ModelOption = None,
    family: FamilyOption = None,
    group: GroupOption = None,
    source: SourceOption = None,
    checkpoint: CheckpointOption = None,
    dataset: DatasetOption = None,
    set_: SetOption = None,
    pooling: PoolingOption = None,
    all_runs: AllRunsOption = False,
    home: HomeOption = None,
) -> None:
    """Write everything the data allow into a folder that opens in a browser without network.

    A page for every model, and pages of clusters, correlations, regressions and comparisons, each
    figure with its data and SQL.
    """
    from analysis.report import write_report
    from analysis.selection import Selection

    selection = Selection(
        models=tuple(model or ()),
        families=tuple(family or ()),
        groups=tuple(group or ()),
        sources=tuple(source or ()),
        checkpoints=tuple(checkpoint or ()),
        datasets=tuple(dataset or ()),
        sets=tuple(set_ or ()),
        poolings=tuple(pooling or ()),
        newest=not all_runs,
    )
    written = write_report(chosen_home(context, home), out, selection, title)
    for name, reason in written.absent:
        typer.echo(f"no page about {name.lower()}: {reason}", err=True)
    failed = f", {written.failed} of them failed" if written.failed else ""
    typer.echo(f"{written.pages} pages about {written.runs} runs{failed}", err=True)
    typer.echo(str(written.index))
