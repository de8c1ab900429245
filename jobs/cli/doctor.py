"""``survey doctor``: what works on this machine, and what to do about what does not."""

from __future__ import annotations

import typer

from jobs.cli.app import FormatOption, HomeOption, app, chosen_format, chosen_home, guarded


@app.command("doctor")
@guarded
def doctor(
    context: typer.Context,
    home: HomeOption = None,
    format: FormatOption = None,  # noqa: A002
) -> None:
    """Check stores, disk, Ray, devices and caches; exit code 3 if something is broken."""
    import pyarrow as pa

    from jobs.cli.output import emit
    from jobs.operations.doctor import checkup

    findings = checkup(chosen_home(context, home))
    rows = [
        {"check": f.check, "state": f.state, "detail": f.detail, "what to do": f.hint}
        for f in findings
    ]
    emit(pa.Table.from_pylist(rows), chosen_format(context, format))
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(3)
