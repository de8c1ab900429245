"""What the tests of this folder know of the repository: its root, rooms and files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: The four rooms, each allowed to import itself and those after it.
ROOMS = ("jobs", "analysis", "catalog", "survey")


def room_modules(room: str) -> list[Path]:
    """Return every Python file of a room, sorted."""
    return sorted((ROOT / room).rglob("*.py"))


def all_modules() -> list[Path]:
    """Return every Python file of the product, sorted by room."""
    return [path for room in ROOMS for path in room_modules(room)]


def relative(path: Path) -> str:
    """Return a path as the repository names it."""
    return path.relative_to(ROOT).as_posix()


def repository_files() -> list[Path]:
    """Return the files git tracks or would track; skip the test outside a git checkout."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout: which files belong to the repository is unknown")
    names = {name for name in listing.stdout.decode().split("\0") if name}
    return sorted(path for name in names if (path := ROOT / name).is_file())
