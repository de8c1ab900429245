"""What a survey from elsewhere may name: no code, and files only below folders that are allowed."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from catalog.checkpoint_files import FILE, expanded, parted
from catalog.datasets import path_of
from catalog.files import at_home
from jobs.planning.definition import Definition
from survey.errors import SettingsError, UntrustedCode


class FolderNotAllowed(SettingsError):
    """A file lies below no folder that this process allows; another one may allow it."""


def require_allowed(definition: Definition, allowed: Sequence[Path]) -> Definition:
    """Return a survey that names no code, and no file outside some folders.

    Parameters
    ----------
    definition : Definition
        The survey.
    allowed : sequence of Path
        Folders, resolved.

    Raises
    ------
    UntrustedCode
        If it names code to run.
    FolderNotAllowed
        If it names a file or a folder elsewhere, be it by a link.
    SettingsError
        If it names a file by a path with ``..``.
    """
    for choice in definition.models:
        if choice.name.startswith(("python:", "memory:")):
            raise UntrustedCode(
                f"{choice.name} is code: surveys that are submitted name none",
                hint="survey run measures it, on the machine of the service",
            )
    for choice in definition.models:
        for checkpoint in choice.checkpoints:
            if checkpoint.ref.startswith(FILE):
                _require_files(checkpoint.ref, definition.base, allowed)
    for dataset in definition.datasets:
        if path := path_of(dataset.full_name, definition.base):
            _require_below(dataset.name, path, allowed)
    return definition


def _require_files(reference: str, base: Path, allowed: Sequence[Path]) -> None:
    """Refuse a file elsewhere, or a glob that begins or ends elsewhere."""
    # With the part of a file that may be named, and without: which it is, the files say.
    for written in (reference, reference.rpartition("#")[0] or reference):
        whole = base / at_home(written.removeprefix(FILE))
        # First, so that nobody learns which files there are elsewhere.
        plain = takewhile(lambda part: not glob.has_magic(part), whole.parts)
        _require_below(reference, Path(*plain), allowed)
        if ".." in whole.parts:
            raise SettingsError(f"{reference} must be a path without ..")
    for each in expanded(reference, base):
        file, _ = parted(each, base)
        _require_below(reference, base / at_home(file.removeprefix(FILE)), allowed)


def _require_below(written: str, path: Path, allowed: Sequence[Path]) -> None:
    resolved = path.resolve()
    if not any(resolved.is_relative_to(folder) for folder in allowed):
        raise FolderNotAllowed(
            f"{written} lies below no folder that is allowed",
            hint="--allow PATH names such folders"
            if not allowed
            else "name it by its whole path, below one that --allow names",
        )
