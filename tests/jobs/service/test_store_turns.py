"""Requests that read the store itself: they leave threads to the others."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event, Semaphore
from typing import Any

import pytest

from catalog.store.pages import StoredRows
from jobs.service import store_turns
from jobs.service.api import queries
from tests.jobs.service.conftest import Serve
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.quick

#: More than there are threads for requests.
READERS = 60


def test_who_reads_the_store_takes_few_threads(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, over = Semaphore(0), Event()

    def held(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            begun.release()
            over.wait(PATIENCE_SECONDS)
            return function(*given)

        return call

    monkeypatch.setattr(StoredRows, "page", held(StoredRows.page))
    monkeypatch.setattr(queries, "run_query", held(queries.run_query))
    client, addresses = serve(), ["batch_scores", "failures", "queries/store-size"]
    with ThreadPoolExecutor(READERS) as readers:
        asked = [readers.submit(client.get, f"/api/v1/{addresses[n % 3]}") for n in range(READERS)]
        assert all(begun.acquire(timeout=PATIENCE_SECONDS / 2) for _ in range(store_turns.READERS))
        for address in ("/api/v1/surveys", "/api/v1/datasets", "/scan"):
            assert client.get(address).status_code == 200
        assert not wait(asked, 0).done
        over.set()
        assert {each.result().status_code for each in asked} == {200}


def test_who_waits_too_long_for_a_turn_is_refused(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_turns, "READERS", 0)
    monkeypatch.setattr(store_turns, "WAIT_SECONDS", 0.1)
    late = serve().get("/api/v1/failures")
    assert (late.status_code, late.headers["Retry-After"]) == (503, "60")
