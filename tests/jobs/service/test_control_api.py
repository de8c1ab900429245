"""Surveys, schedules, events and progress over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import anyio
import hypothesis
import pytest
from fastapi.testclient import TestClient
from hypothesis import strategies

from catalog.home import Home
from catalog.registry.claims import Settlement
from catalog.registry.registry import Registry
from catalog.registry.rows import EventEntry
from jobs.planning.definition import parse_definition
from jobs.run import declared
from jobs.scan.scan_progress import ScanProgress, as_json, write_progress
from jobs.schedules.cron import new_entry
from jobs.schedules.tick import look
from jobs.service.access.callers import Caller
from jobs.service.api import progress
from jobs.service.application import make_application
from jobs.service.driver_state import DriverFile, only_driver
from jobs.service.feed import feed
from jobs.service.settings import ServiceSettings
from tests.catalog.homes import new_home

ZOO: dict[str, Any] = {"name": "zoo", "models": [{"name": "small:digits_vgg7"}]}

ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return new_home(tmp_path / "home")


@pytest.fixture
def client(home: Home) -> Iterator[TestClient]:
    app = make_application(ServiceSettings(home))
    with TestClient(app, base_url="http://127.0.0.1:8765/api/v1") as client:
        yield client


def test_a_survey_is_submitted_cancelled_and_retried(client):
    response = client.post("/surveys", json=ZOO)
    assert response.status_code == 201
    submitted = response.json()
    assert (submitted["id"], submitted["state"], submitted["name"]) == (1, "queued", "zoo")
    assert submitted["definition"]["models"][0]["name"] == "small:digits_vgg7"
    assert "base" not in submitted["definition"]
    assert client.post("/surveys", json=ZOO).json() == submitted
    assert client.post("/surveys/1/retry", json={}).status_code == 400
    assert client.post("/surveys/1/cancel", json={}).json()["state"] == "cancelled"
    assert client.post("/surveys/1/cancel", json={}).status_code == 400
    assert client.post("/surveys/1/retry", json={}).json()["state"] == "queued"
    assert client.get("/surveys/1").json()["state"] == "queued"
    assert client.get("/surveys/2").status_code == 404
    assert client.post("/surveys/2/retry", json={}).status_code == 404
    assert client.get(f"/surveys/{10**30}").status_code == 422


def test_lists_have_pages(client):
    for number in range(5):
        client.post("/surveys", json={**ZOO, "tags": {"n": number}})
    client.post("/surveys/2/cancel", json={})
    first = client.get("/surveys?limit=2&state=queued").json()
    rest = client.get(f"/surveys?limit=2&state=queued&next={first['next']}").json()
    assert [each["id"] for each in first["items"] + rest["items"]] == [5, 4, 3, 1]
    assert rest["next"] is None


@pytest.mark.parametrize(
    ("survey", "status", "words"),
    [
        ({"models": [{"name": "small:digits_vgg8"}]}, 422, "digits_vgg7"),
        ({"models": [{"nam": "small:digits_vgg7"}]}, 422, "did you mean name"),
        ({"models": []}, 400, "no model"),
        ({"models": [{**ZOO["models"][0], "expect_top1": {"digitz": 0.5}}]}, 422, "digits"),
        ({"models": [{"name": "python:os:system"}]}, 403, "code"),
        ({**ZOO, "datasets": [{"name": "folder:/etc"}]}, 400, "--allow"),
        ({**ZOO, "settings": {"images_per_score": 1}}, 400, "images_per_score"),
        ({**ZOO, "name": "\ud800"}, 400, "UTF-8"),
        ({**ZOO, "datasets": [{"name": "folder:\0"}]}, 400, "NUL"),
        (
            {**ZOO, "models": [{"name": "small:digits_vgg7", "checkpoints": ["file:\0"]}]},
            400,
            "NUL",
        ),
        ([], 422, "openapi"),
    ],
)
def test_a_survey_that_cannot_be_is_refused_with_a_hint(client, survey, status, words):
    body, kind = json.dumps(survey).encode(), {"Content-Type": "application/json"}
    response = client.post("/surveys", content=body, headers=kind)
    assert response.status_code == status
    assert words in response.text
    assert client.get("/surveys").json()["items"] == []


_JSON = strategies.recursive(
    strategies.none()
    | strategies.booleans()
    | strategies.integers()
    | strategies.floats(allow_nan=False)
    | strategies.text(),
    lambda inner: (
        strategies.lists(inner, max_size=3)
        | strategies.dictionaries(
            strategies.sampled_from(["name", "ref", "args", "label", "tags", "limit", "mean"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)

_KEYS = ("name", "models", "datasets", "settings", "remeasure", "tags", "base")


@hypothesis.given(
    changes=strategies.dictionaries(strategies.sampled_from(_KEYS), _JSON, max_size=3)
)
@hypothesis.settings(
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture], max_examples=150
)
def test_no_survey_is_a_fault_of_the_server(client, changes):
    response = client.post(
        "/surveys",
        content=json.dumps({**ZOO, **changes}).encode(),
        headers={"Content-Type": "application/json"},
    )
    assert response.status_code in (201, 400, 403, 422)


def test_schedules_are_added_paused_resumed_and_removed(client):
    asked = {"name": "nightly", "survey": ZOO, "cron": "@daily", "timezone": "Europe/Paris"}
    added = client.post("/schedules", json=asked)
    assert added.status_code == 201
    assert added.json()["cron"] == "0 0 * * *"
    assert len(added.json()["next_due"]) == 5
    assert client.post("/schedules", json=asked).status_code == 400
    assert client.post("/schedules/nightly/pause", json={}).json()["next_due"] == []
    assert client.post("/schedules/nightly/resume", json={}).json()["paused_at"] is None
    assert [each["name"] for each in client.get("/schedules").json()["items"]] == ["nightly"]
    assert client.get("/schedules/nightly").json()["survey"]["name"] == "zoo"
    assert client.delete("/schedules/nightly").status_code == 204
    assert client.get("/schedules/nightly").status_code == 404
    for wrong in ({"cron": "0 25 * * *"}, {"cron": 3}, {"timezone": "Mars"}, {"survey": {}}):
        assert client.post("/schedules", json=asked | wrong).status_code in (400, 422)
    code = {"models": [{"name": "python:os:system"}]}
    assert client.post("/schedules", json={**asked, "survey": code}).status_code == 403


def test_queries_are_kept_listed_and_removed(client):
    divided = "SELECT affinity /(1 + depth), 'file:/a/b.pth' FROM models"
    for name, sql in (("b c", "SELECT 1"), ("a", divided), ("b c", "SELECT 3")):
        assert client.post("/saved_queries", json={"name": name, "sql": sql}).status_code == 201
    listed = client.get("/saved_queries").json()["items"]
    assert [(each["name"], each["sql"]) for each in listed] == [
        ("a", divided),
        ("b c", "SELECT 3"),
    ]
    assert client.get("/saved_queries/a").json()["sql"] == divided
    assert [each["name"] for each in client.get("/saved_queries?search=3").json()["items"]] == [
        "b c"
    ]
    for wrong in (
        {"name": "a/b"},
        {"name": " "},
        {"name": ".."},
        {"name": "\t"},
        {"name": "\u2028"},
        {"name": "..\t"},
        {"name": "\x1f"},
        {"sql": ""},
        {"sql": "\0"},
        {"by": "me"},
    ):
        query = {"name": "c", "sql": "SELECT 1", **wrong}
        assert client.post("/saved_queries", json=query).status_code == 422
    assert client.delete("/saved_queries/b%20c").status_code == 204
    assert client.delete("/saved_queries/b%20c").status_code == 404
    assert client.get("/saved_queries/b%20c").status_code == 404
    assert len(client.get("/saved_queries").json()["items"]) == 1


def test_events_are_listed_and_fed(client, home):
    with Registry(home) as registry:
        for number in range(3):
            moment = datetime(2026, 11, 2, 8, number, tzinfo=UTC)
            title = f"{number} < 5 & \x07 'x'"
            kind = "drift" if number else "finished"
            registry.events.record(EventEntry(kind, f"run {number}", title, {"n": number}, moment))
    first = client.get("/events?limit=2").json()
    rest = client.get(f"/events?limit=2&next={first['next']}").json()
    assert [each["data"]["n"] for each in first["items"] + rest["items"]] == [2, 1, 0]
    assert [each["type"] for each in client.get("/events?type=drift").json()["items"]] == [
        *("drift", "drift")
    ]
    assert client.get(f"/events/{first['items'][0]['id']}").json() == first["items"][0]
    assert client.get("/events/none").status_code == 404
    response = client.get("/events.atom")
    assert response.headers["content-type"] == "application/atom+xml"
    root = ElementTree.fromstring(response.content)
    ids = [entry.findtext(f"{ATOM}id") for entry in root.iter(f"{ATOM}entry")]
    assert ids == [f"urn:uuid:{each['id']}" for each in first["items"] + rest["items"]]
    assert root.find(f"{ATOM}entry/{ATOM}title").text == "2 < 5 &  'x'"  # type: ignore[union-attr]
    with Registry(home) as registry:
        (event,) = registry.events.latest(1)
    content = feed([event], "http://zoo.atomlab.org/events.atom", None).decode()
    assert f'href="http://zoo.atomlab.org/events/{event.id}"' in content
    # The same at another address of the service, and after further events.
    with Registry(home) as registry:
        registry.events.record(EventEntry("drift", "run 3", "more", {}, datetime.now(UTC)))
    again = client.get("/events.atom", headers={"Host": "localhost"})
    assert ElementTree.fromstring(again.content).findtext(f"{ATOM}id") == root.findtext(f"{ATOM}id")
    assert str(root.findtext(f"{ATOM}id")).startswith("urn:uuid:")
    assert root.findtext(f"{ATOM}id") not in ids


def test_no_answer_names_a_path(client, home):
    place = home.path.parent
    values = {**ZOO, "datasets": [{"name": f"folder:{place}/pictures"}]}
    definition = parse_definition(values, "zoo", place)
    reason = f"{place}/a.pth cannot be read"
    entry = new_entry("weekly", definition, place / "zoo.toml", cron="@weekly", timezone="UTC")
    now = datetime.now(UTC)
    with Registry(home) as registry:
        registry.schedules.add(entry, now - timedelta(days=8))
        submission = registry.submissions.add(
            registry.record_survey("zoo", declared(definition)), now
        )
        look(registry.schedules, now)
        for rows, row in (
            (registry.submissions, submission),
            (registry.schedules, registry.schedules.open_ticks(registry.schedules.all()[0])[0]),
        ):
            rows.settle(row, Settlement("failed", reason), now)
        registry.events.record(EventEntry("failed", "survey 1", reason, {"rows": [reason]}, now))
    with only_driver(home, print):
        DriverFile(home).write("waiting", "survey 1", reason)
        for address in ("schedules", "surveys", "surveys/1", "events", "events.atom", "progress"):
            text = client.get(f"/{address}").text
            assert str(place) not in text, address
            assert "a.pth cannot be read" in text, address
    assert client.get("/schedules").json()["items"][0]["survey"]["datasets"][0]["name"] == (
        "folder:pictures"
    )


def test_progress_is_that_of_the_scan_and_is_streamed_as_it_changes(client, home, monkeypatch):
    assert client.get("/progress").json()["scan"]["state"] == "waiting"
    assert client.get("/progress").json()["driver"]["state"] == "absent"
    going = ScanProgress("1 on host", 1.0, jobs=4, measured_before=1, done=2, end="failed")
    write_progress(home.progress, going)
    assert client.get("/progress").json()["scan"]["done"] == 2
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.01)

    async def two() -> list[dict[str, Any]]:
        streamed = []
        async for event in progress._events(home, client.app.state, Caller()):  # type: ignore[attr-defined]
            streamed.append(event.data)
            if len(streamed) == 2:
                break
            home.progress.write_text(as_json(going).replace('"done": 2', '"done": 3'))
        return streamed

    assert [each["scan"]["done"] for each in anyio.run(two)] == [2, 3]


@pytest.mark.parametrize("seconds", [None, 1])
def test_a_stream_ends_with_the_token_that_opened_it(client, home, monkeypatch, seconds):
    service, now = client.app.state, datetime.now(UTC)
    expiry = seconds and now + timedelta(seconds=seconds)
    service.registry.tokens.add("alice", "read", now, expiry)
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(progress, "ALIVE_SECONDS", 0.0)

    async def watch() -> int:
        number = 0
        with anyio.fail_after(60):
            async for _ in progress._events(home, service, Caller("alice", "read")):
                number += 1
                if not expiry and number == 3:
                    service.registry.tokens.revoke("alice", now)
        return number

    assert anyio.run(watch) == 3 or expiry
