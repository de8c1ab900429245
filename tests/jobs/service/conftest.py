"""Services of an empty home, asked without a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from catalog.home import Home
from catalog.registry.registry import Registry
from jobs.service.application import make_application
from jobs.service.settings import ServiceSettings
from tests.catalog.homes import new_home

#: Returns a client of a service; keyword arguments are its settings.
Serve = Callable[..., TestClient]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return new_home(tmp_path_factory.mktemp("served") / "survey-home")


@pytest.fixture
def serve(home: Home) -> Iterator[Serve]:
    with ExitStack() as stack:

        def begin(*routers: Any, **settings: Any) -> TestClient:
            app = make_application(ServiceSettings(home, **settings))
            for router in routers:
                app.include_router(router)
            client = TestClient(
                app, base_url="http://127.0.0.1:8765", raise_server_exceptions=False
            )
            return stack.enter_context(client)

        yield begin


@pytest.fixture
def token(home: Home, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Return a function that makes a token of some scope and returns its secret."""

    def made(scope: Any = "read", expires_at: datetime | None = None) -> str:
        with Registry(home) as registry:
            name = f"{request.node.name} {len(registry.tokens.all())}"
            return registry.tokens.add(name, scope, datetime.now(UTC), expires_at)

    return made


def shown_paths(text: str, home: Path) -> list[str]:
    """Return the parts of this machine's paths that a text holds."""
    return [str(place) for place in (home, *home.parents[:-2]) if str(place) in text]
