"""Questions over HTTP: the same rows and sentences as in Python, options and filters validated."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from analysis.answers import ANSWERS
from analysis.answers.clusters import SignatureClusters
from analysis.answers.material import Material
from analysis.data.selection import Selection
from analysis.option_fields import option_fields
from catalog.home import Home
from jobs.service.api import questions
from jobs.service.api.result_page import PageParameters
from jobs.service.application import make_application
from jobs.service.recent_answers import RecentAnswers
from jobs.service.settings import ServiceSettings
from tests.analysis.homes import Builder

API = "/api/v1/questions"


def test_an_answer_of_the_last_days_is_computed_anew_each_minute(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    minutes, keys = iter(("12:00", "12:01")), []
    real = RecentAnswers.answer

    async def answer(self: Any, request: Any, compute: Any, asked: Any, *more: Any) -> Any:
        keys.append(asked)
        return await real(self, request, compute, asked, *more)

    monkeypatch.setattr(questions, "minute_of", lambda _: next(minutes))
    monkeypatch.setattr(RecentAnswers, "answer", answer)
    for _ in range(2):
        assert client.get("/api/v1/questions/drift?since=9d").status_code == 200
    assert keys[0] != keys[1]


@pytest.fixture(scope="module")
def client(home: Home) -> Iterator[TestClient]:
    rng = np.random.default_rng(1)
    with Builder(home.path) as build:
        for number in range(6):
            facts = {"checkpoint": f"file:/srv/secret/w{number}.pth", "family": f"F{number % 2}"}
            facts["dataset"] = f"folder:/srv/secret/{number // 4}"
            scores = rng.random((2, 6)) / 4 + number % 2 / 2
            build(f"r{number}", scores, architecture=f"net{number}", **facts)
    with TestClient(
        make_application(ServiceSettings(home)), base_url="http://localhost:8765"
    ) as client:
        yield client


def test_every_answer_has_an_address_and_its_options(client: TestClient) -> None:
    paths = client.get("/api/v1/openapi.json").json()["paths"]
    listed = [each["name"] for each in client.get(API).json()["items"]]
    assert listed == [answer.name for answer in ANSWERS]
    for answer in ANSWERS:
        parameters = paths[f"{API}/{answer.name}"]["get"]["parameters"]
        names = [each["name"] for each in parameters]
        assert len(set(names)) == len(names)
        options = [*option_fields(answer), *option_fields(Selection)]
        assert len(names) == len(options) + 1 + ("role" not in answer.without) + len(
            PageParameters.model_fields
        )


def test_an_answer_is_the_one_of_python(client: TestClient, home: Home) -> None:
    given = client.get(f"{API}/clusters", params={"clusters": 2, "model": ["net0", "net[1-4]"]})
    answer = SignatureClusters(
        Material(home.path, Selection(models=("net0", "net[1-4]"))), number=2
    )
    assert given.json()["finding"].rstrip(".") == answer.finding().rstrip(".")
    clusters = {item["run_id"]: item["cluster"] for item in given.json()["items"]}
    assert clusters == dict(zip(answer.rows["run_id"], answer.rows["cluster"], strict=True))
    assert len(clusters) == 5
    text = client.get(f"{API}/clusters.csv", params={"clusters": 2}).text
    assert len(text.splitlines()) == 7


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"clusters": 0}, 422),
        ({"clusters": "many"}, 422),
        ({"linkage": "none"}, 422),
        ({"number": 2}, 422),
        ({"tag": "a>>b"}, 400),
        ({"model": "nothing*"}, 400),
        ({"set": "nothing"}, 400),
    ],
)
def test_what_cannot_be_asked_is_refused(
    client: TestClient, asked: dict[str, Any], status: int
) -> None:
    assert client.get(f"{API}/clusters", params=asked).status_code == status


def test_an_answer_is_of_what_the_home_holds_now(client: TestClient, home: Home) -> None:
    before = client.get(f"{API}/timeline").json()["items"]
    assert client.get(f"{API}/timeline").json()["items"] == before
    with Builder(home.path) as build:
        build("late", np.full((2, 6), 0.5), architecture="late")
    after = client.get(f"{API}/timeline").json()["items"]
    assert {each["run_id"] for each in after} - {each["run_id"] for each in before} == {"late"}


def test_no_answer_names_a_path(client: TestClient, home: Home) -> None:
    for answer in ANSWERS:
        text = client.get(f"{API}/{answer.name}").text
        assert "secret" not in text
        assert str(Path(home.path).parent) not in text


def test_pages_of_an_answer_are_all_of_it_in_order(client: TestClient) -> None:
    whole = client.get(f"{API}/distances").json()
    asked = {"sort": ["family", "-distance"], "fields": ["family", "distance"], "limit": 4}
    items, address, sizes = [], f"{API}/distances", []
    params: dict[str, Any] | None = asked
    while True:
        answer = client.get(address, params=params)
        page = answer.json()
        items += page["items"]
        sizes.append(len(page["items"]))
        assert page["finding"] == whole["finding"]
        if page["next"] is None:
            break
        # The header names the next page as the token does.
        address, params = answer.headers["Link"].partition("<")[2].partition(">")[0], None
    assert set(sizes[:-1]) == {4}
    assert len(items) == len(whole["items"]) > 4
    pairs = [{name: each[name] for name in asked["fields"]} for each in whole["items"]]
    assert items == sorted(pairs, key=lambda each: (each["family"] or "~", -each["distance"]))
    assert whole["next"] is None
    text = client.get(f"{API}/distances.csv", params=asked | {"limit": 2}).text
    assert text.splitlines()[0].replace('"', "") == "family,distance"
    assert len(text.splitlines()) == 3


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"sort": "nothing"}, 422),
        ({"fields": "nothing"}, 422),
        ({"limit": 0}, 422),
        ({"next": "nothing"}, 400),
        ({"next": "W10="}, 400),
        ({"next": "WzEsMl0="}, 400),
    ],
)
def test_pages_that_there_are_not_are_refused(
    client: TestClient, asked: dict[str, Any], status: int
) -> None:
    answer = client.get(f"{API}/distances", params=asked)
    assert answer.status_code == status
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_every_answer_is_sorted_by_each_column_that_can_be(client: TestClient) -> None:
    sorted_ones = 0
    for answer in ANSWERS:
        whole = client.get(f"{API}/{answer.name}")
        for name in whole.json()["items"][0] if whole.json().get("items") else ():
            given = client.get(f"{API}/{answer.name}", params={"sort": f"-{name}", "limit": 1})
            assert given.status_code in (200, 422), (answer.name, name)
            sorted_ones += given.status_code == 200
    assert sorted_ones > 50


def test_a_token_is_of_one_answer(client: TestClient) -> None:
    token = client.get(f"{API}/distances", params={"limit": 1}).json()["next"]
    first, of = json.loads(base64.b64decode(token))
    assert first == 1
    for place in (-1, 10**30, 1.0, True, "1"):
        made = base64.b64encode(json.dumps([place, of]).encode()).decode()
        assert client.get(f"{API}/distances", params={"next": made}).status_code == 400
    for other in ({"sort": "distance"}, {"model": "net[0-3]"}):
        asked = {"limit": 1, "next": token} | other
        assert client.get(f"{API}/distances", params=asked).status_code == 400
    assert client.get(f"{API}/distances", params={"limit": 1, "next": token}).status_code == 200
