"""Processes that compute answers: who waits for them, and that they end with their service."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event

import pytest
from starlette.requests import Request
from starlette.types import Message

from jobs.service.problems import Refusal
from jobs.service.renderer import MOST_WAITING, Renderer
from tests.jobs.service.conftest import Serve

SERVICE = """
import asyncio, os, time
from jobs.service.renderer import Renderer

def pid(_asked):
    return os.getpid()

async def pids():
    renderer = Renderer()
    about_all = asyncio.wrap_future(renderer.begin(pid, 0))
    print(await renderer.page(pid, 0), await about_all, flush=True)

if __name__ == "__main__":
    asyncio.run(pids())
    time.sleep(600)
"""


@pytest.fixture
def stuck() -> Iterator[Callable[[Renderer], Future[bool]]]:
    """Return a function that gives a renderer's processes something without an end."""
    over = Event()
    with ThreadPoolExecutor(1) as process:
        process._processes = {}  # type: ignore[attr-defined]

        def begin(renderer: Renderer) -> Future[bool]:
            for line in (renderer._quick, renderer._slow):
                line._process = process  # type: ignore[assignment]
            return process.submit(over.wait, 60)

        yield begin
        process.shutdown(wait=False, cancel_futures=True)
        over.set()


def test_who_waits_for_an_answer_keeps_no_other_reader_waiting(
    serve: Serve, stuck: Callable[[Renderer], Future[bool]]
) -> None:
    client = serve()
    renderer = client.app.state.renderer  # type: ignore[attr-defined]
    answering = stuck(renderer)
    with ThreadPoolExecutor(MOST_WAITING) as readers:
        pages = ["/map", "/api/v1/questions/distances"]
        asked = [
            readers.submit(client.get, f"{pages[n % 2]}?family=F{n}") for n in range(MOST_WAITING)
        ]
        until(lambda: renderer._slow._waiting == MOST_WAITING)
        assert client.get("/api/v1/queries").status_code == 200
        late = client.get("/api/v1/questions/clusters")
        assert (late.status_code, late.headers["Retry-After"]) == (503, "60")
        assert answering.running()
        renderer.close()
        assert {each.result().status_code for each in asked} == {503}


def test_nothing_is_computed_for_a_client_that_went_away(
    stuck: Callable[[Renderer], Future[bool]],
) -> None:
    async def gone() -> Message:
        return {"type": "http.disconnect"}

    called: list[int] = []
    renderer = Renderer()
    stuck(renderer)
    request = Request({"type": "http"}, receive=gone)
    with pytest.raises(Refusal):
        asyncio.run(renderer.compute(request, called.append, 1))
    assert renderer._quick._waiting == 0
    assert called == []


@pytest.mark.slow(seconds=4)
def test_a_process_that_died_is_replaced() -> None:
    async def ask_twice() -> list[None]:
        renderer = Renderer()
        first = await renderer.page(time.sleep, 0.0)
        (process,) = renderer._quick._process._processes.values()
        process.kill()
        process.join()
        with suppress(Refusal):
            # Whether anybody waited when it died is chance.
            await renderer.page(time.sleep, 0.01)
        return [first, await renderer.page(time.sleep, 0.02)]

    assert asyncio.run(ask_twice()) == [None, None]


@pytest.mark.slow(seconds=4)
def test_a_service_that_stops_waits_for_no_answer() -> None:
    renderer = Renderer()
    computing = renderer.begin(time.sleep, 600)
    until(computing.running)
    (process,) = renderer._slow._process._processes.values()
    renderer.close()
    # The executor waits for it, too: who comes second is not told at once.
    until(lambda: not process.is_alive())


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds, for half a minute at most."""
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.slow(seconds=5)
def test_no_process_outlives_a_service_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text(SERVICE)
    service = subprocess.Popen(
        [sys.executable, str(tmp_path / "service.py")], stdout=subprocess.PIPE, text=True
    )
    assert service.stdout is not None
    processes = [int(pid) for pid in service.stdout.readline().split()]
    assert len(set(processes)) == 2
    service.kill()
    service.wait()
    service.stdout.close()
    end = time.monotonic() + 30
    left = processes
    while left and time.monotonic() < end:
        time.sleep(0.1)
        left = [pid for pid in processes if Path(f"/proc/{pid}").exists()]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []
