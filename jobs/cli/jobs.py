"""``survey retry``, ``cancel`` and ``log``: commands on single jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.option_fields import option
from jobs.cli.terminal import say
from jobs.cli.verb import DEFAULT_HOME, HomeOption, verb
from survey.errors import SettingsError
from survey.text import counted

if TYPE_CHECKING:
    from catalog.registry.rows import JobState


def _runs() -> Any:
    return option(None, "Run ids, or their beginnings.", metavar="RUN", positional=True)


@verb
def retry(
    *,
    runs: list[str] | None = _runs(),
    all_: bool = option(
        False, "Retry all jobs that failed, were parked or cancelled.", flags=("--all",)
    ),
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Mark jobs that failed, were parked or cancelled for the next survey run to try again."""
    if not _move(home, "todo", "to be tried again by the next survey run", runs, everything=all_):
        say("nothing to try again: no job failed, was parked or cancelled")


@verb
def cancel(
    *,
    runs: list[str] | None = _runs(),
    all_: bool = option(False, "Cancel all jobs that are not done.", flags=("--all",)),
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Cancel jobs: a running scan stops their workers. Finished batches are kept."""
    if not _move(home, "cancelled", "cancelled; survey retry undoes this", runs, everything=all_):
        say("nothing to cancel: every job is done")


@verb
def log(
    *,
    run: str = option(..., "Run id, or its beginning.", metavar="RUN", positional=True),
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Print the log of one job: attempts, workers, batches, failures."""
    from catalog.open_home import open_home
    from jobs.operations.control import find_job
    from jobs.scan.job_log import read_log

    opened = open_home(home, create=False)
    say(*read_log(opened.logs, find_job(opened, run).run_id).split("\n"), err=False)


def _move(home: Path, to: JobState, what: str, runs: list[str] | None, *, everything: bool) -> bool:
    """Move jobs, or all of them, to another state, and return whether any changed."""
    from catalog.open_home import open_home
    from jobs.operations.control import find_job, move_jobs

    opened = open_home(home, create=False)
    if everything == bool(runs):
        raise SettingsError(
            "both runs and --all were given" if runs else "no run was named",
            hint="name runs as survey status shows them, or pass --all",
        )
    changed = move_jobs(opened, to, [find_job(opened, run) for run in runs] if runs else None)
    for job in changed:
        title = f"{job.source}:{job.architecture} / {job.checkpoint} / {job.dataset}"
        say(f"{job.run_id} {title}")
    if changed:
        say(f"{counted(len(changed), 'job')} {what}")
    return bool(changed)
