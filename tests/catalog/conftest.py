"""A fresh home for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.home import Home
from tests.catalog.homes import new_home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return new_home(tmp_path / "home")
