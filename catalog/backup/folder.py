"""Folders that appear whole or not at all, by a rename; what a kill leaves has another name."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from catalog.files import sync_folder
from survey.errors import SettingsError, StoreError

#: Ending of a folder that is not whole yet, beside its place.
UNFINISHED = ".unfinished"


@contextmanager
def appearing_folder(path: Path, what: str) -> Iterator[Path]:
    """Yield an empty folder to fill; on success it takes its name, in one step that lasts.

    Parameters
    ----------
    path : Path
        Where it appears: a place with nothing, or with an empty folder. What a killed process left
        of an earlier attempt is removed.
    what : str
        What it is called in errors.

    Raises
    ------
    SettingsError
        If something is there, is being made by another process, or would be the current folder.
    StoreError
        If it cannot be written; then nothing is left.
    """
    require_nothing(path, what)
    fresh = path.with_name(path.name + UNFINISHED)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with held_folder(fresh, what):
            try:
                yield fresh
                for folder in (*(each for each in fresh.rglob("*") if each.is_dir()), fresh):
                    sync_folder(folder)
                _take_place(fresh, path, what)
            except BaseException:
                # The name of one that is whole is free, and another process may have taken it.
                shutil.rmtree(fresh, ignore_errors=True)
                raise
    except OSError as error:
        raise StoreError(
            f"the {what} {path} cannot be written: {error.strerror or error}",
            hint="free some disk space, or name a directory that can be written",
        ) from error


def require_nothing(path: Path, what: str) -> None:
    """Go on only where a folder may appear.

    Raises
    ------
    SettingsError
        If there is something, or it would replace the current folder.
    """
    if path.is_dir() and not any(path.iterdir()):
        if path.samefile(Path()):
            raise SettingsError(
                f"the {what} {path} would replace the current directory",
                hint=f"name a directory below it, such as {path / what}",
            )
        return
    if os.path.lexists(path):
        raise SettingsError(
            f"the {what} {path} is there already; nothing is ever overwritten",
            hint="name a directory that does not exist yet",
        )


@contextmanager
def held_folder(folder: Path, what: str) -> Iterator[None]:
    """Hold an empty folder for this process: the lock ends with it, however it ends.

    Raises
    ------
    SettingsError
        If another process holds it.
    """
    folder.mkdir(exist_ok=True)
    # A link would lead to what is not ours to empty.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another process may have finished with it since it was opened.
            ours = os.path.samestat(os.fstat(descriptor), folder.stat())
        except (BlockingIOError, FileNotFoundError):
            ours = False
        if not ours:
            raise SettingsError(
                f"another process is writing the {what} {folder}",
                hint="wait for it to end, or name another directory",
            )
        for left in folder.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        yield
    finally:
        os.close(descriptor)


def _take_place(fresh: Path, path: Path, what: str) -> None:
    try:
        fresh.rename(path)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            require_nothing(path, what)
        if error.errno == errno.EBUSY:
            raise SettingsError(
                f"the {what} {path} cannot appear in one step: a file system is mounted there",
                hint=f"name a directory below it, such as {path / what}",
            ) from error
        raise
    sync_folder(path.parent)
