"""A home that holds a finished survey, shared by tests that only ask."""

from pathlib import Path

import pytest

from tests.acceptance.command import once, survey


@pytest.fixture(scope="session")
def finished_home(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Two networks on the digits, measured without Ray."""
    asked = ("run", "-m", "small:digits_*14", "--images-per-score", "256", "--runner", "local")
    return once(tmp_path_factory, worker_id, "finished", lambda home: survey(*asked, home=home))
