"""SQL over HTTP: formats, refusals, limits, and an end with the client."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from fastapi.testclient import TestClient

from bench.sql_service import ENDLESS, FORBIDDEN, MEMORY_GB, SECONDS, run_campaign
from catalog.home import Home
from catalog.store.reader import reading, refusing, result_of
from jobs.operations.sql_query import SqlQuery
from jobs.service import queries
from jobs.service.queries import Queries
from jobs.service.settings import NICENESS, SqlLimits
from survey.errors import SettingsError, SurveyError
from tests.jobs.service.conftest import Serve
from tests.waiting import PATIENCE_SECONDS, processor_seconds, until

pytestmark = pytest.mark.slow(seconds=8)

SQL = "SELECT range AS n, 'x' || range AS t, range / 2 AS half FROM range(3)"
ROWS = [{"n": n, "t": f"x{n}", "half": n / 2} for n in range(3)]

READERS: dict[str, Any] = {
    "csv": lambda content: pyarrow.csv.read_csv(io.BytesIO(content)),
    "parquet": lambda content: pyarrow.parquet.read_table(io.BytesIO(content)),
    "arrow": lambda content: pa.ipc.open_stream(content).read_all(),
}


@pytest.fixture
def local(serve: Serve) -> TestClient:
    limits = SqlLimits(sql_rows=1000, sql_space=0.01, sql_timeout=PATIENCE_SECONDS)
    return serve(sql=limits)


def ask(client: TestClient, sql: str, ending: str = "", **values: Any) -> Any:
    return client.post(f"/api/v1/sql{ending}", json={"sql": sql, **values})


def test_every_format_has_the_same_rows(local: TestClient) -> None:
    assert ask(local, SQL).json() == {"items": ROWS, "next": None}
    assert ask(local, SQL, ".json", limit=2).json()["items"] == ROWS[:2]
    for form, read in READERS.items():
        answer = ask(local, SQL, f".{form}")
        assert read(answer.content).to_pylist() == ROWS
        assert int(answer.headers["content-length"]) == len(answer.content)
    kind = {"Accept": answer.headers["content-type"]}
    same = local.post("/api/v1/sql", json={"sql": SQL}, headers=kind)
    assert (same.headers["content-type"], same.content) == (kind["Accept"], answer.content)


def test_what_is_refused_says_why(local: TestClient) -> None:
    answer = ask(local, "SELECT afinity FROM signatures")
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert "affinity" in answer.json()["hint"]
    for wrong in (
        {},
        {"sql": 1},
        {"sql": "x", "limit": "y"},
        {"sql": SQL, "limit": -1},
        {"a": SQL},
    ):
        assert local.post("/api/v1/sql", json=wrong).status_code == 422
    assert ask(local, SQL, ".xlsx").status_code == 422
    assert ask(local, SQL, limit=1001).status_code == 400
    half = r"""{"sql": "SELECT '\ud800'"}"""
    answer = local.post("/api/v1/sql", content=half, headers={"Content-Type": "application/json"})
    assert (answer.status_code, "letter 9" in answer.json()["detail"]) == (400, True)


def test_no_result_is_cut_unasked(local: TestClient) -> None:
    assert len(ask(local, "FROM range(1000)").json()["items"]) == 1000
    assert "1,000 rows" in ask(local, "FROM range(1001)").json()["detail"]
    large = ask(local, "SELECT repeat('x', 20000) FROM range(1000)", ".csv")
    assert (large.status_code, "10 MB" in large.json()["detail"]) == (400, True)


def test_files_are_named_without_their_folders(local: TestClient) -> None:
    values = (
        "'file:/srv/my zoo/w.pth[:9]' AS a, [{'b': '/srv/x/y.pth'}] AS b, MAP {'k': '~/z/v'} AS c,"
        " 'torchvision:resnet50/V2' AS d, NULL AS f"
    )
    (row,) = ask(local, f"SELECT {values}").json()["items"]
    assert row["a"] == "file:w.pth[:9]"
    assert row["b"] == [{"b": "y.pth"}]
    assert "z/" not in str(row["c"])
    assert (row["d"], row["f"]) == ("torchvision:resnet50/V2", None)
    (kept,) = READERS["arrow"](ask(local, f"SELECT {values}", ".arrow").content).to_pylist()
    assert (kept["a"], kept["b"], kept["c"]) == (row["a"], row["b"], [("k", "v")])
    assert "/" not in str(ask(local, "SELECT path FROM duckdb_databases()").json())
    assert "/" not in ask(local, "FROM duckdb_databases() SELECT path", ".csv").text


def test_neither_names_of_columns_nor_bytes_hold_folders(local: TestClient, home: Home) -> None:
    folder, paths = str(home.path.parent), "(SELECT path FROM duckdb_databases() WHERE path > '')"
    named = f"PIVOT (SELECT path, 1 AS n FROM {paths}) ON path USING sum(n)"
    as_bytes = f"SELECT path::BLOB AS a, [path::BLOB] AS b FROM {paths}"
    for statement in (named, as_bytes):
        for ending in (".json", ".csv", ".parquet", ".arrow"):
            answer = ask(local, statement, ending)
            assert answer.status_code == 200
            assert folder.encode() not in answer.content


def test_what_is_no_path_stays(local: TestClient) -> None:
    texts = ["3 / 4", "</a>", "*/5 0-1/2 1 1 *", "https://host/a/b", "a/b", "1/2 of x"]
    values = ", ".join(f"'{text}'" for text in texts)
    assert ask(local, f"SELECT unnest([{values}]) AS v").json()["items"] == [
        {"v": text} for text in texts
    ]


def test_queries_are_of_lower_priority_than_what_answers(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, of = [], partial(os.getpriority, os.PRIO_PROCESS)
    started = subprocess.Popen.__init__

    def watched(self: Any, *given: Any, **named: Any) -> None:
        started(self, *given, **named)
        deadline = time.monotonic() + 60
        while (priority := of(self.pid)) == of(0) and time.monotonic() < deadline:
            time.sleep(0.01)
        seen.append((priority, os.getsid(self.pid)))

    monkeypatch.setattr(subprocess.Popen, "__init__", watched)
    list(SqlQuery(home, "SELECT 1", "json", SqlLimits().of_query(1)))
    # Priorities count within a session alone.
    assert seen == [(min(of(0) + NICENESS, 19), os.getsid(0))]


def test_a_token_that_may_read_asks(serve: Serve, token: Any) -> None:
    remote, headers = serve(host="0.0.0.0"), {"Authorization": f"Bearer {token('read')}"}
    for ending in ("", ".csv"):
        path = f"/api/v1/sql{ending}"
        assert remote.post(path, json={"sql": SQL}).status_code == 401
        assert remote.post(path, json={"sql": SQL}, headers=headers).status_code == 200


class Client:
    """A request of a client that goes away when it is let."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    async def receive(self) -> dict[str, str]:
        await self.gone.wait()
        return {"type": "http.disconnect"}


def children() -> list[str]:
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return [child for task in tasks for child in task.read_text().split()]


def test_a_query_ends_with_its_client_and_others_wait_in_vain(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "WAIT_SECONDS", 0.3)
    others = children()

    async def go_away() -> float:
        room, asked = Queries(home, SqlLimits(sql_at_once=1)), (ENDLESS[0], "json", None)
        with tempfile.TemporaryFile() as file:
            client = Client()
            first = asyncio.create_task(room.run(client, *asked, file))
            await asyncio.sleep(0.1)
            with pytest.raises(queries.Unavailable) as caught:
                await room.run(Client(), *asked, file)
            assert (caught.value.status_code, caught.value.headers["Retry-After"]) == (503, "5")
            began = processor_seconds()
            client.gone.set()
            with pytest.raises(SettingsError, match="ended"):
                await first
            return processor_seconds() - began

    assert asyncio.run(go_away()) < 5
    assert children() == others


def test_queries_have_processes_that_wait_for_them(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "WAIT_SECONDS", PATIENCE_SECONDS)
    others, room = children(), Queries(home, SqlLimits())

    def waiting() -> list[int]:
        until(lambda: len(room._waiting) == SqlLimits().sql_at_once)
        return [process.pid for process in room._waiting]

    async def ask() -> None:
        with tempfile.TemporaryFile() as file:
            await room.run(Client(), "SELECT 1", "json", None, file)

    room.prepare()
    first, second = waiting()
    asyncio.run(ask())
    assert second in waiting()
    assert first not in waiting()
    # One that was ended meanwhile is not asked.
    os.kill(second, signal.SIGKILL)
    os.waitid(os.P_PID, second, os.WEXITED | os.WNOWAIT)
    asyncio.run(ask())
    assert second not in waiting()

    async def crowd() -> None:
        await asyncio.gather(*(ask() for _ in range(2 * SqlLimits().sql_at_once)))

    # Those that found none ready leave no more than there were.
    asyncio.run(crowd())
    until(lambda: not room._starting)
    assert len(waiting()) == SqlLimits().sql_at_once
    room.close()
    assert children() == others


def test_no_more_queries_come_in_than_there_is_room_for(home: Home) -> None:
    async def come_in() -> None:
        room = Queries(home, SqlLimits())
        inside = [room.room() for _ in range(queries.MOST_QUERIES)]
        for each in inside:
            await each.__aenter__()
        with pytest.raises(queries.Unavailable):
            await room.room().__aenter__()
        await inside[0].__aexit__(None, None, None)
        await room.room().__aenter__()

    asyncio.run(come_in())


@pytest.mark.parametrize("limits", [{"sql_timeout": 0}, {"sql_memory": -1}, {"sql_space": 0}])
def test_limits_that_are_none_are_refused(limits: dict[str, float]) -> None:
    (name,) = limits
    with pytest.raises(SettingsError, match=f"--{name.replace('_', '-')}"):
        SqlLimits(**limits)


@pytest.mark.parametrize("sql", FORBIDDEN)
def test_what_reaches_beyond_the_store_is_refused(home: Home, sql: str) -> None:
    with pytest.raises(SurveyError), reading(home) as connection, refusing(home.signatures):
        result_of(connection, sql).fetchall()


@pytest.mark.long
@pytest.mark.slow(seconds=300)
@pytest.mark.timeout(1800)
def test_hostile_statements_are_refused_or_stopped_within_their_limits(home: Home) -> None:
    campaign = run_campaign(home)
    late = {sql[:60]: each for sql, each in campaign.answers.items() if each[1] > 10 * SECONDS}
    assert not late
    assert {status for status, _ in campaign.answers.values()} == {400, 413}
    assert 0 < campaign.idle_bytes < campaign.peak_bytes < campaign.idle_bytes + MEMORY_GB * 1e9
    assert len(campaign.health) > 20
