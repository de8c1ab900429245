"""A home that holds a finished survey, shared by tests that only ask; and an end to processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.command import end_started, once, survey


@pytest.fixture(autouse=True)
def _nothing_outlives_a_test() -> Iterator[None]:
    """End what a test started, also one that fails."""
    yield
    end_started()


@pytest.fixture(scope="session")
def finished_home(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Two networks on the digits, measured without Ray."""
    asked = ("run", "-m", "small:digits_*14", "--images-per-score", "256", "--runner", "local")
    return once(tmp_path_factory, worker_id, "finished", lambda home: survey(*asked, home=home))
