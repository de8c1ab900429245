"""The start of a service on a large home: requests wait without a thread, and pages say why."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event

import pytest
from fastapi.testclient import TestClient

from catalog.home import Home
from jobs.service import first_copy
from tests.jobs.service.conftest import Serve

pytestmark = pytest.mark.quick

#: More than there are threads for requests.
READERS = 60


@pytest.fixture
def made() -> Iterator[Event]:
    """The end of the first copy."""
    event = Event()
    yield event
    event.set()


@pytest.fixture
def client(serve: Serve, home: Home, made: Event, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setattr(first_copy, "copy_now", lambda _home: made.wait(60))
    client = serve()
    client.app.state.first_copy.begin(home)  # type: ignore[attr-defined]
    return client


def test_requests_wait_for_the_first_copy_and_take_no_thread(
    client: TestClient, made: Event
) -> None:
    with ThreadPoolExecutor(READERS) as readers:
        asked = [readers.submit(client.get, "/api/v1/models") for _ in range(READERS)]
        assert not wait(asked, 1).done
        # What is not read from the copy is there.
        for address in ("/api/v1/surveys", "/api/v1/questions", "/scan", "/sql"):
            assert client.get(address).status_code == 200
        assert client.get("/healthz").json() == {"status": "ok", "copying": True}
        made.set()
        assert {each.result().status_code for each in asked} == {200}
    assert client.get("/healthz").json() == {"status": "ok", "copying": False}


@pytest.mark.parametrize("address", ["/", "/models", "/models/r1", "/map"])
def test_a_page_comes_by_itself(client: TestClient, address: str) -> None:
    answer = client.get(address)
    assert (answer.status_code, answer.headers["Refresh"]) == (202, "3")
    assert "copied for the first time" in answer.text


def test_a_service_that_stops_waits_for_no_copy(client: TestClient) -> None:
    client.app.state.stopping = True  # type: ignore[attr-defined]
    assert client.get("/api/v1/models").status_code == 503
