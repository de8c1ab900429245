"""Real images and real checkpoints beside the repository; tests that need them skip without."""

from __future__ import annotations

from pathlib import Path

import pytest

#: Where the data lie; no part of the repository.
SHARED = Path(__file__).resolve().parents[2] / "shared"


def shared(relative: str) -> Path:
    """Return a path below the shared data, or skip the test that asks for it."""
    path = SHARED / relative
    if not path.exists():
        pytest.skip(f"no shared data: {relative} is not beside the repository")
    return path
