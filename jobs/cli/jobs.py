"""``survey retry``, ``cancel`` and ``log``: single jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.cli.verb import DEFAULT_HOME, HomeOption, verb
from survey.text import counted

if TYPE_CHECKING:
    from catalog.registry.rows import JobRow, JobState

RunsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="RUN", help="Run ids, or their beginnings."),
]


@verb
def retry(
    runs: RunsArgument = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Retry all jobs that failed, were parked or cancelled.")
    ] = False,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Mark jobs that failed, were parked or cancelled for the next survey run to try again."""
    changed = _moved(home, "todo", runs, everything=all_)
    _report(
        changed,
        "to be tried again by the next survey run",
        "nothing to try again: no job failed, was parked or cancelled",
    )


@verb
def cancel(
    runs: RunsArgument = None,
    all_: Annotated[bool, typer.Option("--all", help="Cancel all jobs that are not done.")] = False,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Cancel jobs: a running scan stops their workers. Finished batches are kept."""
    changed = _moved(home, "cancelled", runs, everything=all_)
    _report(changed, "cancelled; survey retry undoes this", "nothing to cancel: every job is done")


@verb
def log(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run id, or its beginning.")],
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Print the log of one job: attempts, workers, batches, failures."""
    from catalog.open_home import open_home
    from jobs.operations.control import find_job
    from jobs.scan.job_log import read_log

    opened = open_home(home, create=False)
    typer.echo(read_log(opened.logs, find_job(opened, run).run_id), nl=False)


def _moved(home: Path, to: JobState, runs: list[str] | None, *, everything: bool) -> list[JobRow]:
    """Move the jobs named, or all, to another state; return those that changed."""
    from catalog.open_home import open_home
    from jobs.operations.control import find_job, move_jobs
    from survey import SettingsError

    opened = open_home(home, create=False)
    if everything == bool(runs):
        raise SettingsError(
            "both runs and --all were given" if runs else "no run was named",
            hint="name runs as survey status shows them, or pass --all",
        )
    return move_jobs(opened, to, [find_job(opened, run) for run in runs] if runs else None)


def _report(changed: list[JobRow], what: str, nothing: str) -> None:
    for job in changed:
        typer.echo(
            f"{job.run_id} {job.source}:{job.architecture} / {job.checkpoint} / {job.dataset}",
            err=True,
        )
    typer.echo(f"{counted(len(changed), 'job')} {what}" if changed else nothing, err=True)
