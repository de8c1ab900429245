"""A home that holds a finished survey, shared by tests that only ask."""

from pathlib import Path

import pytest

from tests.acceptance.command import survey


@pytest.fixture(scope="session")
def finished_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two networks on the digits, measured without Ray."""
    home = tmp_path_factory.mktemp("finished") / "home"
    survey("run", "-m", "small:digits_*14", "--batch-size", "256", "--runner", "local", home=home)
    return home
