"""A fresh home for every test, copied from one that is made once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from catalog.home import Home
from catalog.open_home import open_home


@pytest.fixture(scope="session")
def empty_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return open_home(tmp_path_factory.mktemp("empty") / "home", create=True).path


@pytest.fixture
def home(empty_home: Path, tmp_path: Path) -> Home:
    shutil.copytree(empty_home, tmp_path / "home")
    return Home(tmp_path / "home")
