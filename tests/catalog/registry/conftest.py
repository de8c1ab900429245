"""The registry's tests on both databases: on SQLite always, on PostgreSQL among the long ones."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from catalog.home import Home
from catalog.open_home import open_home
from catalog.registry.address import checked_url, record_url
from tests.catalog.homes import new_home
from tests.postgresql import PASSWORD, Server, serving

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a database `template` that holds a new home's registry."""
    with pytest.MonkeyPatch.context() as patch, serving() as server:
        patch.setenv("PGPASSWORD", PASSWORD)
        server.sql("CREATE DATABASE template OWNER survey")
        home = tmp_path_factory.mktemp("template") / "home"
        open_home(home, create=True, registry_url=server.url("template"))
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def home(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Home:
    """A new home, with its registry in a file or on a server."""
    home = new_home(tmp_path / "home")
    if request.param == "sqlite":
        return home
    server, name = request.getfixturevalue("server"), f"registry_{os.getpid()}_{next(_numbers)}"
    server.sql(f"CREATE DATABASE {name} TEMPLATE template OWNER survey")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    home.registry.unlink()
    home = Home(home.path, checked_url(server.url(name)))
    record_url(home)
    return home
