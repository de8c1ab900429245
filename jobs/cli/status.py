"""``survey status``: the jobs of a home and their progress, from any terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from analysis.option_fields import option
from jobs.cli.output import TableOptions, emit_rows
from jobs.cli.server import ServerOptions
from jobs.cli.terminal import say
from jobs.cli.verb import DEFAULT_HOME, INTERRUPTED, SOME_FAILED, HomeOption, verb
from survey.errors import SettingsError

if TYPE_CHECKING:
    from rich.console import Console

    from jobs.operations.watch import Look

#: Most jobs in a table that a person reads; running and failed ones come first.
SHOWN = 40

#: Seconds between two looks, and the most of them: a day.
INTERVAL_SECONDS, LONGEST_INTERVAL_SECONDS = 1.0, 86_400.0


@verb
def status(
    *,
    watch: bool = option(
        False, "Show the scan that runs, or begins, until it ends; --json gives a line a look."
    ),
    interval: float = option(
        INTERVAL_SECONDS,
        "With --watch: seconds between two looks.",
        minimum=0.1,
        maximum=LONGEST_INTERVAL_SECONDS,
    ),
    all_: bool = option(False, f"Show all jobs, not only the first {SHOWN}.", flags=("--all",)),
    server: ServerOptions,
    home: HomeOption = DEFAULT_HOME,
    table: TableOptions,
) -> None:
    """Show all jobs and how far each is, with their errors; also while a scan runs.

    Running and failed jobs come first. With --watch the exit code is that of the scan.
    """
    if watch and all_:
        raise SettingsError("--watch excludes --all", hint="it shows the jobs that are measured")
    if interval != INTERVAL_SECONDS and not watch:
        raise SettingsError("--interval goes with --watch", hint="add --watch")
    if (client := server.client()) is not None:
        if watch:
            raise SettingsError("--server excludes --watch", hint="`survey run --server` watches")
    elif watch:
        _watch(home, interval, table)
        return
    from catalog.open_home import open_home
    from jobs.operations.status import COLUMNS, standing

    most = None if all_ or table.format != "table" else SHOWN
    shown = client.status(most) if client else standing(open_home(home, create=False), most)
    emit_rows([each.row() for each in shown.items], COLUMNS, table.format)
    if len(shown.items) < shown.jobs:
        say(f"{len(shown.items)} of {shown.jobs} jobs shown; --all shows every one")
    say(*shown.flags, shown.summary)


def _watch(home: Path, interval: float, table: TableOptions) -> None:
    from rich.console import Console

    from jobs.operations.watch import watch
    from jobs.operations.watch_screen import json_line, plain_line

    if table.format not in ("table", "json"):
        raise SettingsError(f"--watch excludes --format {table.format}", hint="it takes --json")
    looks = watch(home, interval)
    console = Console(highlight=False, markup=False, force_terminal=sys.stdout.isatty())
    try:
        if table.format == "json":
            last = _write_lines(looks, json_line)
        elif not console.is_interactive:
            last = _write_lines(looks, plain_line)
        else:
            last = _show_screen(home, looks, console)
    except KeyboardInterrupt:
        # How watching ends before the scan does: there is nothing to go on with.
        raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(exit_code(last))


def _show_screen(home: Path, looks: Iterable[Look], console: Console) -> Look:
    """Show looks at a scan on the whole terminal; return the last one, whose screen stays."""
    from rich.live import Live

    from jobs.operations.watch import Look
    from jobs.operations.watch_screen import screen
    from jobs.scan.interruption import termination_interrupts

    last = Look("waiting", time.time(), None)
    try:
        with (
            termination_interrupts(),
            Live(console=console, screen=True, auto_refresh=False) as live,
        ):
            for last in looks:
                live.update(screen(home, last, console.width), refresh=True)
    finally:
        console.print(screen(home, last, console.width))
    return last


def _write_lines(looks: Iterable[Look], line_of: Callable[[Look], str]) -> Look:
    """Write a line a look, unless it says what the one before says; return the last look."""
    before = ""
    for look in looks:
        if (line := line_of(look)) != before:
            say(line, err=False)
        before = line
    return look


def exit_code(look: Look) -> int:
    """Return the exit code of a scan that was watched to its end."""
    progress = look.progress
    if look.state == "killed" or progress is None or progress.end == "interrupted":
        return INTERRUPTED
    if progress.end == "error":
        return progress.error_code or 1
    return SOME_FAILED if progress.end == "failed" else 0
