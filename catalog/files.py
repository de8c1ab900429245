"""Files that users name: their place, and the hash of their bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from survey.errors import CheckpointError


def at_home(path: str) -> Path:
    """Return a path with its ``~`` replaced, where there is such a home."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def file_sha256(path: Path) -> str:
    """Return the sha256 (hex) of a file's bytes, read in pieces.

    Raises
    ------
    CheckpointError
        If the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as problem:
        raise CheckpointError(
            f"checkpoint file {path} cannot be read: {problem.strerror}",
            hint="check the path after `file:` and its permissions",
        ) from problem
