"""Answers that took long are given again, with their age, while newer ones are computed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from concurrent.futures import Future
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient
from starlette.requests import Request
from starlette.types import Message

from jobs.service import recent_answers
from jobs.service.problems import Refusal
from jobs.service.recent_answers import (
    LONG_SECONDS,
    MOST_AGE,
    MOST_BEGUN,
    TIMES_GIVEN,
    RecentAnswers,
    minute_of,
)
from jobs.service.renderer import MOST_WAITING, Renderer
from survey.errors import SettingsError
from tests.analysis.homes import Builder
from tests.jobs.service.conftest import Serve
from tests.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.quick

LONG, SHORT = LONG_SECONDS, LONG_SECONDS / 2


class Process:
    """In the place of the slow process: computes when it is let, and takes what time it is told."""

    def __init__(self) -> None:
        self.given: list[Future[Any]] = []
        self._processes: dict[int, Any] = {}

    def submit(self, *_given: Any) -> Future[Any]:
        self.given.append(Future())
        return self.given[-1]

    def shutdown(self, *, wait: bool, cancel_futures: bool) -> None:
        for each in self.given:
            each.cancel()


class Service:
    """The answers of a service whose process and clock are ours."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(recent_answers.time, "monotonic", lambda: self.now)
        renderer, self.process = Renderer(), Process()
        self.line = renderer._slow
        self.line._process = self.process  # type: ignore[assignment]
        self.recent = RecentAnswers(renderer)

    def ask(
        self, revision: str, asked: str = "q", gone: asyncio.Event | None = None
    ) -> asyncio.Task[tuple[str, float]]:
        async def receive() -> Message:
            await (gone or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        request = Request({"type": "http"}, receive=receive)
        return asyncio.create_task(self.recent.answer(request, str, asked, revision, len))

    async def computed(self, result: str, seconds: float, place: int = -1) -> None:
        """Let a computation end."""
        await settled()
        self.process.given[place].set_result((result, seconds))
        await settled()

    async def asked(self, revision: str, asked: str = "q") -> tuple[str, float] | None:
        """Return what is answered at once."""
        task = self.ask(revision, asked)
        await settled()
        if task.done():
            return task.result()
        return None


async def settled() -> None:
    """Let all that can go on do so."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    return Service(monkeypatch)


def test_a_long_answer_is_given_again_with_its_age_and_then_the_next(service: Service) -> None:
    async def case() -> None:
        first = service.ask("1")
        await service.computed("old", LONG)
        assert await first == ("old", 0.0)
        assert await service.asked("1") == ("old", 0.0)
        assert len(service.process.given) == 1
        service.now += 3
        assert await service.asked("2") == ("old", 3.0)
        # One is begun, however many ask.
        assert await service.asked("3") == ("old", 3.0)
        assert len(service.process.given) == 2
        await service.computed("new", LONG)
        assert await service.asked("2") == ("new", 0.0)
        assert len(service.process.given) == 2

    asyncio.run(case())


@pytest.mark.parametrize("seconds", [LONG, 2 * MOST_AGE / TIMES_GIVEN])
def test_an_answer_is_given_no_longer_than_it_may(service: Service, seconds: float) -> None:
    async def case() -> None:
        service.ask("1")
        await service.computed("old", seconds)
        service.now += min(TIMES_GIVEN * seconds, MOST_AGE)
        assert (await service.asked("2") or ("",))[0] == "old"
        service.now += 1
        late = service.ask("3")
        await settled()
        assert not late.done()
        # The one that was begun then is recent.
        await service.computed("new", seconds)
        assert await late == ("new", 1.0)

    asyncio.run(case())


def test_a_duration_means_another_moment_each_minute() -> None:
    assert minute_of({"since": "7d"}) <= minute_of({"since": "1m", "any_order": True}) != ""
    assert minute_of({"since": "2026-05-01"}) == minute_of({}) == minute_of({"since": None}) == ""


def test_a_quick_answer_is_always_of_what_the_home_holds(service: Service) -> None:
    async def case() -> None:
        for number in range(3):
            asking = service.ask(str(number))
            await settled()
            assert not asking.done()
            await service.computed(f"of {number}", SHORT)
            assert await asking == (f"of {number}", 0.0)
        assert await service.asked("2") == ("of 2", 0.0)

    asyncio.run(case())


def test_an_answer_that_was_quick_for_once_is_still_long_and_one_that_stays_so_is_not(
    service: Service,
) -> None:
    async def case() -> None:
        service.ask("1")
        await service.computed("a", 2 * LONG)
        await service.asked("2")
        await service.computed("b", SHORT)
        assert await service.asked("3") == ("b", 0.0)
        await service.computed("c", SHORT)
        assert await service.asked("4") is None

    asyncio.run(case())


def busy() -> str:
    """Take time of the processor."""
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    return "a"


def test_loading_a_library_is_no_reason_to_compute_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def busy_once() -> str:
        monkeypatch.setitem(sys.modules, "a library", sys)
        return busy()

    monkeypatch.setattr(recent_answers, "MODULE_SECONDS", 1.0)
    seconds = [recent_answers._timed(each)[1] for each in (busy, busy_once, busy_once)]
    assert [each >= 0.05 for each in seconds] == [True, False, True]
    monkeypatch.delitem(sys.modules, "a library")
    # What takes longer than any library is long the first time, too.
    monkeypatch.setattr(recent_answers, "MODULE_SECONDS", 0.01)
    assert recent_answers._timed(busy_once)[1] >= 0.04


_LOADED = """
import sys
from pathlib import Path
from catalog.home import Home
from jobs.service.api.questions import _given
from jobs.service.libraries import load_libraries
load_libraries()
loaded = set(sys.modules)
_given(Home(Path(sys.argv[1])), "a", "correlations", {})
print(*set(sys.modules) - loaded)
"""


def test_the_first_correlations_load_no_library(tmp_path: Path) -> None:
    """They would count as quick, and be computed anew at the first question beside a scan."""
    with Builder(tmp_path) as store:
        for place in range(4):
            store(f"run{place}", [0.4, 0.5, 0.6 + place / 10], architecture=f"a{place}")
    command = [sys.executable, "-c", _LOADED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_two_who_ask_first_wait_for_one_answer(service: Service) -> None:
    async def case() -> None:
        both = [service.ask("1"), service.ask("1")]
        await settled()
        assert (len(service.process.given), service.line._waiting) == (1, 2)
        await service.computed("a", SHORT)
        assert await asyncio.gather(*both) == [("a", 0.0)] * 2
        assert service.line._waiting == 0

    asyncio.run(case())


def test_who_asks_while_a_quick_answer_is_computed_gets_none_older_than_the_question(
    service: Service,
) -> None:
    async def case() -> None:
        before, after, last = service.ask("1"), service.ask("2"), service.ask("2")
        await service.computed("a", SHORT)
        assert await before == ("a", 0.0)
        assert not after.done()
        await service.computed("b", SHORT)
        assert await asyncio.gather(after, last) == [("b", 0.0)] * 2
        assert len(service.process.given) == 2

    asyncio.run(case())


def test_one_who_goes_away_takes_the_answer_from_no_other(service: Service) -> None:
    async def case() -> None:
        gone = asyncio.Event()
        service.ask("1", gone=gone)
        staying = service.ask("1")
        await settled()
        gone.set()
        await settled()
        assert not service.process.given[0].cancelled()
        await service.computed("a", SHORT)
        assert await staying == ("a", 0.0)

    asyncio.run(case())


def test_what_all_went_away_from_is_not_computed_and_begun_anew_for_the_next(
    service: Service,
) -> None:
    async def case() -> None:
        gone = asyncio.Event()
        leaving = service.ask("1", gone=gone)
        await settled()
        (queued,) = service.process.given
        # In the same turn of the loop: the one that is cancelled has not ended yet.
        queued.add_done_callback(lambda _: late.append(service.ask("1")))
        late: list[asyncio.Task[tuple[str, float]]] = []
        gone.set()
        await settled()
        assert queued.cancelled()
        with pytest.raises(Refusal) as refused:
            await leaving
        assert refused.value.detail == "the request was cancelled"
        await service.computed("a", SHORT)
        assert await late[0] == ("a", 0.0)

    asyncio.run(case())


def test_a_next_answer_is_computed_though_who_asked_went_away(service: Service) -> None:
    async def case() -> None:
        service.ask("1")
        await service.computed("a", LONG)
        gone = asyncio.Event()
        given = service.ask("2", gone=gone)
        await settled()
        gone.set()
        await given
        assert not service.process.given[1].cancelled()
        await service.computed("b", LONG)
        assert await service.asked("2") == ("b", 0.0)

    asyncio.run(case())


def test_a_next_answer_that_fails_is_tried_again(service: Service) -> None:
    async def case() -> None:
        service.ask("1")
        await service.computed("a", LONG)
        for attempt in (1, 2, 3):
            assert await service.asked(f"{attempt + 1}") == ("a", 0.0)
            service.process.given[attempt].set_exception(SettingsError("no"))
            await settled()
        service.now += MOST_AGE + 1
        last = service.ask("9")
        await settled()
        service.process.given[4].set_exception(SettingsError("no"))
        with pytest.raises(SettingsError):
            await last
        assert await service.asked("9") is None
        await service.computed("b", LONG)
        assert await service.asked("9") == ("b", 0.0)

    asyncio.run(case())


def test_an_answer_is_given_where_the_next_has_no_room(service: Service) -> None:
    async def case() -> None:
        service.ask("1")
        await service.computed("a", LONG)
        service.line._waiting = MOST_WAITING
        assert await service.asked("2") == ("a", 0.0)
        with pytest.raises(Refusal):
            await service.asked("2", "another")
        service.line._waiting = 0
        await service.asked("2")
        assert len(service.process.given) == 2

    asyncio.run(case())


def test_answers_are_kept_within_a_bound_and_the_newest_of_them(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_answers, "MOST_BYTES", 3)
    monkeypatch.setattr(recent_answers, "LEAST_BYTES", 1)

    async def case() -> None:
        for question, result in {"p": "123", "q": "1234", "r": "1", "s": "2"}.items():
            asking = service.ask("1", question)
            await service.computed(result, LONG)
            assert await asking == (result, 0.0)
        given = {question: await service.asked("1", question) for question in "srqp"}
        assert given == {"s": ("2", 0.0), "r": ("1", 0.0), "q": None, "p": None}

    asyncio.run(case())


def test_answers_without_rows_are_kept_within_the_bound_too(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_answers, "MOST_BYTES", 2 * recent_answers.LEAST_BYTES)

    async def case() -> None:
        for question in "pqr":
            asking = service.ask("1", question)
            await service.computed("", LONG)
            assert await asking == ("", 0.0)
        assert [await service.asked("1", question) for question in "rqp"] == [("", 0.0)] * 2 + [
            None
        ]

    asyncio.run(case())


def test_what_was_asked_for_last_is_kept(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_answers, "MOST_BYTES", 2 * recent_answers.LEAST_BYTES)

    async def case() -> None:
        for question in "pq":
            service.ask("1", question)
            await service.computed(question, LONG)
        assert await service.asked("1", "p") == ("p", 0.0)
        service.ask("1", "r")
        await service.computed("r", LONG)
        assert await service.asked("1", "p") == ("p", 0.0)
        assert await service.asked("1", "q") is None

    asyncio.run(case())


def test_few_next_answers_are_computed_before_they_are_waited_for(service: Service) -> None:
    async def case() -> None:
        number = 2 * MOST_BEGUN
        for question in map(str, range(number)):
            service.ask("1", question)
            await service.computed(question, LONG)
        for question in map(str, range(number)):
            assert await service.asked("2", question) == (question, 0.0)
        assert len(service.process.given) == number + MOST_BEGUN
        # One that is waited for is begun all the same.
        assert await service.asked("2", "another") is None
        assert len(service.process.given) == number + MOST_BEGUN + 1

    asyncio.run(case())


def test_a_service_stops_while_a_next_answer_is_computed(service: Service) -> None:
    async def case() -> None:
        service.ask("1")
        await service.computed("a", LONG)
        await service.asked("2")
        waiting = service.ask("2", "another")
        await settled()
        service.recent._renderer.close()
        await settled()
        with pytest.raises(Refusal):
            await waiting
        assert all(each.done() for each in asyncio.all_tasks() - {asyncio.current_task()})

    asyncio.run(case())


API = "/api/v1/questions/timeline"


@pytest.fixture
def slow_service(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """Return a service whose answers all take long, with one run."""
    client: TestClient = serve()
    with Builder(home_of(client)) as build:
        build("r1", [[0.5, 0.6], [0.4, 0.5]], architecture="net1")
    monkeypatch.setattr(recent_answers, "LONG_SECONDS", 0.0)
    monkeypatch.setattr(recent_answers, "TIMES_GIVEN", 1e9)
    monkeypatch.setattr("jobs.service.renderer.PAGE_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr("jobs.service.renderer.FRESH_SECONDS", 0.0)
    monkeypatch.setattr(recent_answers, "MOST_AGE", 1e9)
    return client


def home_of(client: TestClient) -> Path:
    path: Path = client.app.state.settings.home.path  # type: ignore[attr-defined]
    return path


@pytest.mark.slow(seconds=9)
def test_the_service_says_how_old_an_answer_is(slow_service: TestClient) -> None:
    client, home = slow_service, home_of(slow_service)
    # The other one first: loading libraries does not count.
    other, first = client.get(API, params={"model": "net1"}), client.get(API)
    assert "Age" not in first.headers
    with Builder(home) as build:
        build("r2", [[0.5, 0.6], [0.4, 0.5]], architecture="net2")
    again = client.get(API)
    assert (again.text, int(again.headers["Age"]) > 0) == (first.text, True)
    # Every format has the same rows; other runs are another answer.
    as_csv = client.get(f"{API}.csv")
    assert as_csv.text.count("\n") == (2 if "Age" in as_csv.headers else 3)
    as_parquet = client.get(f"{API}.parquet")
    table = pq.read_table(BytesIO(as_parquet.content))
    assert table.num_rows == (1 if "Age" in as_parquet.headers else 2)
    assert [each["run_id"] for each in other.json()["items"]] == ["r1"]
    changed = client.get(API, params={"model": "net2"})
    assert [each["run_id"] for each in changed.json()["items"]] == ["r2"]
    assert client.get(API, params={"dataset": "nothing"}).status_code == 400
    until(lambda: len(client.get(API).json()["items"]) == 2, pause=0.1)


@pytest.mark.slow(seconds=9)
def test_a_page_about_all_runs_is_given_again_with_its_own_tag(slow_service: TestClient) -> None:
    client = slow_service
    # The other one first: loading libraries does not count.
    _, first = client.get("/?model=net1"), client.get("/")
    assert ("Age" in first.headers, "net1" in first.text) == (False, True)
    with Builder(home_of(client)) as build:
        build("r3", [[0.5, 0.6], [0.4, 0.5]], architecture="net3")
    again = client.get("/")
    assert (again.text, int(again.headers["Age"]) > 0) == (first.text, True)
    assert again.headers["ETag"] == first.headers["ETag"]
    until(lambda: "net3" in client.get("/").text, pause=0.1)
    now = client.get("/")
    tag = {"If-None-Match": now.headers["ETag"]}
    assert now.headers["ETag"] != first.headers["ETag"]
    assert client.get("/", headers=tag).status_code == 304
