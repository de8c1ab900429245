"""``survey backup`` and ``restore``: a copy of a home, made in mid-scan, and its way back."""

from __future__ import annotations

from pathlib import Path

from analysis.option_fields import option
from jobs.cli.terminal import say
from jobs.cli.verb import DEFAULT_HOME, HomeOption, RegistryOption, verb
from survey.text import counted, format_bytes


@verb
def backup(
    *,
    folder: Path = option(
        ..., "Directory to make, such as backups/monday.", metavar="DIR", positional=True
    ),
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Back up a home: every row that is durable now, jobs, schedules, labels and tags.

    A scan may go on meanwhile. Downloaded files, decoded images, logs, your own datasets and the
    trainings of `survey linearise` are not kept.
    """
    from catalog.backup.making import make_backup
    from catalog.open_home import open_home

    made = make_backup(open_home(home, create=False), folder.absolute())
    size = format_bytes(sum(each.bytes for each in made.files.values()))
    files = counted(len(made.files), "file")
    say(f"{folder} holds what was measured by {made.made_at}: {files}, {size}")
    say("not kept: downloaded files, decoded images, logs, your own datasets, linearisations")


@verb
def restore(
    *,
    folder: Path = option(
        ..., "Directory that `survey backup` made.", metavar="DIR", positional=True
    ),
    registry: RegistryOption = None,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Make a new home of a backup; a home that is there is never overwritten.

    A backup that is torn or was changed is refused.
    """
    from catalog.backup.restoring import restore_backup

    made = restore_backup(folder.absolute(), home.absolute(), registry)
    say(f"{home} holds what was measured by {made.made_at}")
    say("downloaded files and decoded images are fetched and made again when they are needed")
