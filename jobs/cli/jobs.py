"""``survey retry``, ``cancel`` and ``log``: what a person does about single jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from jobs.cli.app import DEFAULT_HOME, HomeOption, verb
from survey.text import counted

if TYPE_CHECKING:
    from catalog.home import Home
    from catalog.registry.registry import JobRow

RunsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RUN]...", help="Ids of runs, or how they begin.", show_default=False),
]


@verb
def retry(
    runs: RunsArgument = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Every job that failed, was parked or cancelled.")
    ] = False,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Let jobs be tried again that failed, were parked or cancelled; survey run then does."""
    from catalog.open_home import open_home
    from jobs.operations.control import retry_jobs

    opened = open_home(home, create=False)
    changed = retry_jobs(opened, _chosen(opened, runs, everything=all_))
    _say(
        changed,
        "to be tried again: the next survey run does it",
        "nothing to try again: no job failed, was parked or cancelled",
    )


@verb
def cancel(
    runs: RunsArgument = None,
    all_: Annotated[bool, typer.Option("--all", help="Every job that is not over.")] = False,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Take jobs out: a scan under way ends their workers; what was measured of them is kept."""
    from catalog.open_home import open_home
    from jobs.operations.control import cancel_jobs

    opened = open_home(home, create=False)
    changed = cancel_jobs(opened, _chosen(opened, runs, everything=all_))
    _say(
        changed,
        "cancelled; survey retry takes them up again",
        "nothing to cancel: every job is over",
    )


@verb
def log(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or how it begins.")],
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Print what was tried of one job: attempts, workers, batches, failures."""
    from catalog.open_home import open_home
    from jobs.operations.control import find_job
    from jobs.scan.job_log import read_log

    opened = open_home(home, create=False)
    typer.echo(read_log(opened.logs, find_job(opened, run).run_id), nl=False)


def _chosen(home: Home, runs: list[str] | None, *, everything: bool) -> list[JobRow] | None:
    """Return the jobs named; None for all."""
    from jobs.operations.control import find_job
    from survey import SettingsError

    if everything == bool(runs):
        raise SettingsError(
            "both runs and --all were given" if runs else "no run was named",
            hint="name runs as survey status shows them, or pass --all",
        )
    return None if everything else [find_job(home, run) for run in runs or ()]


def _say(changed: list[JobRow], what: str, nothing: str) -> None:

    for job in changed:
        typer.echo(
            f"{job.run_id} {job.source}:{job.architecture} / {job.checkpoint} / {job.dataset}",
            err=True,
        )
    typer.echo(f"{counted(len(changed), 'job')} {what}" if changed else nothing, err=True)
