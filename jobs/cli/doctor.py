"""``survey doctor``: checks of this machine, with a remedy for each failure."""

from __future__ import annotations

import typer

from analysis.option_fields import option
from jobs.cli.output import TableOptions
from jobs.cli.verb import DEFAULT_HOME, HomeOption, verb
from survey.errors import StoreError


@verb
def doctor(
    *,
    repair: bool = option(
        False, "Repair a damaged home: set damaged files aside, keep what can be read."
    ),
    home: HomeOption = DEFAULT_HOME,
    table: TableOptions,
) -> None:
    """Check stores, disk, Ray, devices and caches. The exit code is 3 if something is broken.

    With --repair only the home is looked at, and what was repaired, kept and lost is listed.
    """
    import pyarrow as pa

    from catalog.arrow_arrays import table_of
    from jobs.operations import repair as repairs
    from jobs.operations.doctor import checkup

    findings = repairs.repair(home) if repair else checkup(home)
    rows = [
        {"check": f.check, "state": f.state, "detail": f.detail, "what to do": f.hint}
        for f in findings
    ]
    columns = ("check", "state", "detail", "what to do")
    table.write(table_of(rows, pa.schema([(name, pa.string()) for name in columns])))
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(StoreError.exit_code)
