"""``survey retry``, ``cancel``, ``log`` and ``tag``: commands on single jobs and their runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.data.selection import Selection
from analysis.option_fields import option
from jobs.cli.output import TableOptions, emit_rows
from jobs.cli.terminal import say
from jobs.cli.verb import DEFAULT_HOME, AllRunsOption, HomeOption, verb
from survey.errors import SettingsError
from survey.text import counted

if TYPE_CHECKING:
    from catalog.home import Home
    from catalog.registry.rows import JobRow, JobState

#: What ``survey tag`` shows of a run.
_TAG_COLUMNS: dict[str, type[str | int | float]] = dict.fromkeys(
    ("run_id", "architecture", "checkpoint", "dataset", "label", "tags"), str
)


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
    table: TableOptions,
) -> None:
    """Mark jobs that failed, were parked or cancelled for the next survey run to try again."""
    moved = _moved(home, "todo", runs, everything=all_)
    _report(moved, "todo", "to be tried again by the next survey run", table)
    if not moved:
        say("nothing to try again: no job failed, was parked or cancelled")


@verb
def cancel(
    *,
    runs: list[str] | None = _runs(),
    all_: bool = option(False, "Cancel all jobs that wait or run.", flags=("--all",)),
    home: HomeOption = DEFAULT_HOME,
    table: TableOptions,
) -> None:
    """Cancel jobs: a running scan stops their workers. Finished batches are kept."""
    moved = _moved(home, "cancelled", runs, everything=all_)
    _report(moved, "cancelled", "cancelled; survey retry undoes this", table)
    if not moved:
        say("nothing to cancel: no job waits or runs")


@verb
def log(
    *,
    run: str = option(..., "Run id, or its beginning.", metavar="RUN", positional=True),
    home: HomeOption = DEFAULT_HOME,
    table: TableOptions,
) -> None:
    """Print the log of one job: attempts, workers, batches, failures."""
    from catalog.open_home import open_home
    from jobs.operations.control import find_job
    from jobs.scan.job_log import read_log

    opened = open_home(home, create=False)
    run_id = find_job(opened, run).run_id
    lines = read_log(opened.logs, run_id).split("\n")
    if table.format == "table":
        say(*lines, err=False)
    else:
        rows = [{"run_id": run_id, "line": line} for line in lines]
        emit_rows(rows, {"run_id": str, "line": str}, table.format)


@verb
def tag(
    *,
    arguments: list[str] | None = option(
        None,
        "Run ids, or their beginnings, and tags to set, such as lr=0.1.",
        metavar="RUN|NAME=VALUE",
        positional=True,
    ),
    remove: list[str] | None = option(None, "Name of a tag to take away; may be repeated."),
    label: str | None = option(
        None, "What tables and figures call the weights; '' takes every label of the runs away."
    ),
    selection: Selection,
    all_runs: AllRunsOption = False,
    home: HomeOption = DEFAULT_HOME,
    table: TableOptions,
) -> None:
    """Set, remove or list labels and tags of runs. Nothing is measured again for it.

    Runs are named by id or selected as in every question; --tag selects by a tag. Without anything
    to change, labels and tags are listed.
    """
    from catalog.open_home import open_home
    from catalog.tags import checked_label, checked_name, parsed_tag
    from jobs.operations.tagging import LabelChange, change_labels, label_rows

    change = LabelChange(
        dict(parsed_tag(each) for each in arguments or () if "=" in each),
        [checked_name(name) for name in remove or ()],
        checked_label(label) if label else label,
    )
    names = [each for each in arguments or () if "=" not in each]
    opened = open_home(home, create=False)
    chosen = _chosen(opened, names, replace(selection, newest=not all_runs))
    if change:
        if chosen is None:
            raise SettingsError(
                "no run was named",
                hint="name runs as survey status shows them, or select some:"
                " --model '*' --untrained --all-runs takes all",
            )
        # A home of an older program has no tables of labels yet.
        opened = open_home(home, create=True)
        before = label_rows(opened, set(chosen))
        change_labels(opened, chosen, change)
    rows = label_rows(opened, None if chosen is None else set(chosen))
    emit_rows([_shown(row, table) for row in rows], _TAG_COLUMNS, table.format)
    if change:
        # As text: 1, 1.0 and true are equal, and different tags.
        changed = sum(repr(old) != repr(new) for old, new in zip(before, rows, strict=True))
        say(f"{counted(changed, 'run')} changed")


def _moved(home: Path, to: JobState, runs: list[str] | None, *, everything: bool) -> list[JobRow]:
    """Move jobs, or all of them, to another state, and return those that changed."""
    from catalog.open_home import open_home
    from jobs.operations.control import find_job, move_jobs

    opened = open_home(home, create=False)
    if everything == bool(runs):
        raise SettingsError(
            "both runs and --all were given" if runs else "no run was named",
            hint="name runs as survey status shows them, or pass --all",
        )
    jobs = {job.run_id: job for job in (find_job(opened, run) for run in runs or ())}
    return move_jobs(opened, to, None if everything else list(jobs.values()))


def _report(jobs: Sequence[JobRow], state: JobState, what: str, table: TableOptions) -> None:
    """Write which jobs changed: lines to standard error, or a table where one is asked for."""
    for job in jobs:
        title = f"{job.source}:{job.architecture} / {job.checkpoint} / {job.dataset}"
        say(f"{job.run_id} {title}")
    if jobs:
        say(f"{counted(len(jobs), 'job')} {what}")
    if table.format != "table":
        names = ("run_id", "source", "architecture", "checkpoint", "dataset")
        rows = [{**{name: getattr(job, name) for name in names}, "state": state} for job in jobs]
        emit_rows(rows, dict.fromkeys((*names, "state"), str), table.format)


def _chosen(home: Home, names: Sequence[str], selection: Selection) -> list[str] | None:
    """Return the ids of the runs that are named or selected; None where neither is."""
    from jobs.operations.control import find_job

    if names and selection.filters:
        raise SettingsError(
            "runs are both named and selected", hint="leave out the ids, or the options"
        )
    if names:
        return [find_job(home, name).run_id for name in names]
    if not selection.filters:
        return None
    from analysis.data.frames import models

    return list(models(home.path, selection)["run_id"])


def _shown(row: dict[str, Any], table: TableOptions) -> dict[str, Any]:
    """Return a row as a format has it: tags as an object in JSON, as text elsewhere."""
    if table.format == "json":
        return row
    from catalog.tags import tags_text

    write = tags_text if table.format == "table" else json.dumps
    return row | {"tags": write(row["tags"]) or None}
