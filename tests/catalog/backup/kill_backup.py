"""A backup and a restore that are killed at one moment after another; run as a module by a test.

Each child is forked and dies by -9; the process itself opens no store, so that forking is safe.
"""

from __future__ import annotations

import json
import os
import pkgutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from catalog.backup.making import make_backup
from catalog.backup.restoring import restore_backup
from catalog.home import Home
from survey.errors import SettingsError

#: Moments to die at: what dies when it is called, and at which of its calls.
MOMENTS = {
    "backup": [
        ("catalog.copies.write_all", 0),
        ("catalog.backup.making.write_manifest", 0),
        ("catalog.backup.folder._take_place", 0),
        ("catalog.backup.folder.sync_folder", 2),
    ],
    "restore": [
        ("catalog.copies.os.fsync", 1),
        ("catalog.backup.folder._take_place", 0),
        ("catalog.backup.folder.sync_folder", 4),
    ],
}


def die_in(work: Callable[[], object], target: str, call: int) -> None:
    """Do some work in a child that is killed when a function is called for the given time."""
    child = os.fork()
    if child == 0:
        real, calls = pkgutil.resolve_name(target), iter(range(1_000_000))

        def dying(*args: Any, **kwargs: Any) -> Any:
            if next(calls) == call:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        with mock.patch(target, dying):
            work()
        os._exit(3)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        raise SystemExit(f"{target} did not kill but ended with {status}")


def main(home: Path, backup: Path, folder: Path) -> None:
    """Kill both at every moment; write what is in the folder after each kill."""
    for verb, moments in MOMENTS.items():
        for number, (target, call) in enumerate(moments):
            place = folder / f"{verb}-{number}"

            def work(verb: str = verb, place: Path = place) -> object:
                return (
                    make_backup(Home(home), place / "it")
                    if verb == "backup"
                    else restore_backup(backup, place / "it")
                )

            die_in(work, target, call)
            there = sorted(path.name for path in place.iterdir()) if place.exists() else []
            ended = again(work)
            left = sorted(path.name for path in place.iterdir())
            sys.stdout.write(json.dumps([verb, target, there, ended, left]) + "\n")


def again(work: Callable[[], object]) -> str:
    """Do the work anew in a child of its own; return how that ended."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except SettingsError:
            os._exit(4)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return {0: "made", 4: "there already"}[os.waitstatus_to_exitcode(status)]


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
