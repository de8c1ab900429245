"""Lists of the API: pages, filters, order, formats, items and facets, over made-up runs."""

from __future__ import annotations

import csv
import io
import itertools
import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi import Request
from fastapi.testclient import TestClient

from catalog.home import Home
from catalog.registry.claims import Settlement
from catalog.registry.registry import Registry
from catalog.registry.rows import EventEntry, JobEntry, ScheduleEntry
from catalog.store import projection
from catalog.store.reader import query
from jobs.service.api.formats import format_of
from jobs.service.api.listing import MOST_VALUES
from jobs.service.api.lists import LISTINGS
from jobs.service.application import make_application
from jobs.service.settings import ServiceSettings
from tests.analysis.homes import Builder
from tests.jobs.service.conftest import shown_paths

#: Lists of each place that rows come from.
SEVERAL = ("runs", "models", "jobs", "surveys", "events", "schedules", "saved_queries")

#: Folders that no answer may name.
SECRET = "/srv/secret folder"

API = "/api/v1"


def fill(home: Home) -> None:
    rng = np.random.default_rng(0)
    with Builder(home.path) as build:
        for number in range(8):
            values: dict[str, Any] = {
                "architecture": f"net{number % 5}",
                "family": [None, "Plain_10%", "Res*Net"][number % 3],
                "checkpoint": f"file:{SECRET}/w{number}.pth",
                "dataset": f"folder:{SECRET}/pictures[:100]",
                "year": None if number % 4 == 0 else 2010 + number % 3,
                "measured_top1": number / 20,
                "ridge": "relative",
            }
            if number == 7:
                values |= {"status": "failed", "stage": "load"}
                values |= {"error": f"{SECRET}/w7.pth is no file", "traceback": TRACEBACK}
            affinity = rng.random((2, 2 + number % 4)).round(1)
            if number == 3:
                affinity[0, 0] = np.nan
            flags = {"flags": [("rounding",)] * affinity.shape[1]} if number == 5 else {}
            build(f"run{number:02}", affinity, flags, **values)
    with Registry(home) as registry:
        notice(registry)


def notice(registry: Registry) -> None:
    """Submit surveys, add schedules and record events, all of which name files."""
    definition = {"models": [{"name": f"file:{SECRET}, by someone/w.pth"}], "datasets": []}
    for number in range(5):
        moment = datetime(2026, 11, 2, 8, number // 2, tzinfo=UTC)
        survey = registry.record_survey(f"survey {number}", {**definition, "n": number})
        submission = registry.submissions.add(survey, moment)
        if number % 2:
            reason = f"{SECRET}/w.pth cannot be read"
            registry.submissions.settle(submission, Settlement("failed", reason), moment)
        event = EventEntry("drift", f"run {number}", f"{SECRET}/w.pth moved", definition, moment)
        registry.events.record(event)
        entry = ScheduleEntry(
            f"weekly {number}", definition, SECRET, f"{SECRET}/zoo.toml", f"{number} 0 * * 0",
            "UTC", "latest", "skip",
        )  # fmt: skip
        registry.schedules.add(entry, moment)
        registry.saved_queries.save(f"query {number}", f"SELECT {number}", moment)


TRACEBACK = """Traceback (most recent call last):
  File "/srv/python/lib/python3.11/site-packages/torch/nn/linear.py", line 7, in forward
  File "/srv/someone/code/model.py", line 3, in build
ValueError: wrong
"""


@pytest.fixture(scope="module")
def client(home: Home) -> Iterator[TestClient]:
    fill(home)
    with Registry(home) as registry:
        survey = registry.record_survey("s", {"models": [f"file:{SECRET}/a.pth"]})
        names = ("a", f"file:{SECRET}/w.pth", "digits", {"images_per_score": 64})
        registry.add_jobs(
            survey, [JobEntry(f"k{n}", f"run{n}", "net", "small", *names[1:]) for n in range(7)]
        )
    app = make_application(ServiceSettings(home))
    with (
        pytest.MonkeyPatch.context() as patch,
        TestClient(app, base_url="http://localhost:8765") as client,
    ):
        patch.setattr(projection, "LOOK_SECONDS", 0.0)
        patch.setattr(projection, "PAUSE", 0.0)
        yield client


def items(client: TestClient, address: str, **asked: Any) -> list[dict[str, Any]]:
    """Return the items of all pages."""
    result, token = [], None
    while True:
        page = client.get(f"{API}/{address}", params=asked | ({"next": token} if token else {}))
        assert page.status_code == 200, page.text
        result += page.json()["items"]
        if (token := page.json()["next"]) is None:
            return result


def test_every_page_in_every_order_shows_each_item_once(client: TestClient) -> None:
    orders = {
        "runs": ["family", "-year"],
        "models": ["-affinity"],
        "signatures": ["architecture", "-affinity"],
        "latest_signatures": ["-affinity"],
        "batch_scores": ["-affinity", "status"],
        "failures": ["-batch"],
        "jobs": ["state"],
        "surveys": ["cancelling", "state", "-submitted_at"],
        "events": ["-timestamp"],
        "schedules": ["-cron"],
        "saved_queries": ["-saved_at"],
    }
    for name, sort in orders.items():
        (listing,) = (each for each in LISTINGS if each.name == name)
        whole = items(client, name, limit=10_000)
        keys = {tuple(item[k] for k in listing.key) for item in whole}
        assert len(keys) == len(whole) > 1, name
        paged = items(client, name, sort=sort, limit=max(1, len(whole) // 4))
        shown = [tuple(item[k] for k in listing.key) for item in paged]
        assert sorted(shown, key=str) == sorted(keys, key=str), name
        assert in_order(paged, [*sort, *listing.key]), name


def test_pages_by_runs_read_the_scores_of_theirs(client: TestClient) -> None:
    for sort in ([], ["-run_id", "-site"], ["architecture"]):
        paged = items(client, "signatures", sort=sort, limit=12)
        assert len(paged) == len(items(client, "signatures", limit=10_000))
        assert in_order(paged, [*sort, "run_id", "site"])


def in_order(rows: list[dict[str, Any]], sort: list[str]) -> bool:
    """Return whether rows are in order, None last, by an independent comparison."""

    def follows(one: dict[str, Any], other: dict[str, Any]) -> bool:
        for each in sort:
            name = each.removeprefix("-")
            a, b = one[name], other[name]
            if a != b and not (isinstance(a, float) and a == pytest.approx(b, abs=1e-9)):
                if a is None or b is None:
                    return b is None
                return (a > b) if each.startswith("-") else (a < b)
        return False

    return all(follows(a, b) for a, b in itertools.pairwise(rows))


def test_filters_agree_with_a_plain_loop(client: TestClient) -> None:
    whole = items(client, "runs")

    def ids(**asked: Any) -> set[str]:
        return {item["run_id"] for item in items(client, "runs", **asked)}

    def where(holds: Any) -> set[str]:
        return {item["run_id"] for item in whole if holds(item)}

    assert ids(architecture="NET1") == where(lambda r: r["architecture"] == "net1") != set()
    assert ids(architecture=["net1", "net?"]) == where(lambda _: True)
    assert ids(family="plain_10%") == where(lambda r: r["family"] == "Plain_10%") != set()
    assert ids(family="plain?10?") == ids(family="p*") == ids(family="plain_10%")
    assert ids(family="plainx10%") == ids(architecture="net%") == ids(architecture="net_") == set()
    assert ids(**{"family.not": "p*"}) == where(lambda r: r["family"] != "Plain_10%")
    assert ids(**{"year.known": False}) == where(lambda r: r["year"] is None) != set()
    assert ids(**{"year.min": 2011}) == where(lambda r: r["year"] and r["year"] >= 2011)
    bounds = {"measured_top1.min": 0.1, "measured_top1.max": 0.3}
    assert ids(**bounds) == where(lambda r: 0.1 <= r["measured_top1"] <= 0.3)
    assert ids(checkpoint="file:w3.pth") == {"run03"}
    assert ids(search="ES*N") == where(lambda r: r["family"] == "Res*Net")
    assert ids(search="' OR 1=1 --") == set()
    moment = whole[4]["finished_at"]
    assert ids(**{"finished_at.max": moment}) == where(lambda r: r["finished_at"] <= moment)
    marked = items(client, "signatures", flags="rounding")
    assert {item["run_id"] for item in marked} == {"run05"}
    assert {i["run_id"] for i in items(client, "models", family="Res*", limit=2)} == {
        f"run{n:02}" for n in (2, 5)
    }


def test_formats_agree(client: TestClient) -> None:
    for listing in (each for each in LISTINGS if each.name in SEVERAL):
        address = f"{API}/{listing.name}"
        asked = {"limit": 3}
        answers = {
            kind: client.get(address, params=asked, headers={"Accept": kind})
            for kind in (
                "application/json",
                "text/csv",
                "application/vnd.apache.parquet",
                "application/vnd.apache.arrow.stream",
            )
        }
        suffixes = ("json", "csv", "parquet", "arrow")
        for (kind, answer), suffix in zip(answers.items(), suffixes, strict=True):
            assert answer.status_code == 200
            assert answer.headers["content-type"].partition(";")[0] == kind
            again = client.get(f"{address}.{suffix}", params=asked, headers={"Accept": "x/y"})
            # Arrow leaves what no value stands for as it is.
            assert len(again.content) == len(answer.content)
            assert again.content == answer.content or suffix == "arrow"
            assert ("link" in again.headers) == (
                answers["application/json"].json()["next"] is not None
            )
        plain, text, parquet, arrow = (answer.content for answer in answers.values())
        rows = json.loads(plain)["items"]
        tables = [pq.read_table(io.BytesIO(parquet)), pa.ipc.open_stream(arrow).read_all()]
        lines = list(csv.DictReader(io.StringIO(text.decode())))
        key = listing.key[0]
        for table in tables:
            assert table.column_names == list(rows[0] if rows else table.column_names)
            assert table[key].to_pylist() == [row[key] for row in rows]
        assert [line[key] for line in lines] == [str(row[key]) for row in rows]
    assert client.get(f"{API}/runs", headers={"Accept": "image/png"}).status_code == 406
    wanted = {"Accept": "text/csv;q=0.5, application/json;q=0.9, text/html"}
    assert client.get(f"{API}/runs", headers=wanted).headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("*", "json"),
        ("text/*", "csv"),
        ("image/png, application/vnd.apache.parquet", "parquet"),
        ("*/csv", "csv"),
        # As an expression each star could take any share of the letters.
        (f"{'*' * 40}!, text/csv", "csv"),
        (f"application/{'*' * 40}!, text/csv", "csv"),
    ],
)
@pytest.mark.timeout(60)
def test_stars_stand_for_parts_of_a_media_type(accept: str, form: str) -> None:
    headers = [(b"accept", accept.encode())]
    assert format_of(Request({"type": "http", "headers": headers})) == form


def test_items_have_addresses(client: TestClient) -> None:
    for listing in LISTINGS:
        asked = {"limit": 1, "sort": f"-{listing.key[0]}"}
        (item,) = client.get(f"{API}/{listing.name}", params=asked).json()["items"]
        if None not in (key := [item[name] for name in listing.key]):
            found = client.get(f"{API}/{listing.name}/{'/'.join(map(str, key))}")
            # Two spellings of a moment in UTC.
            one = json.loads(found.text.replace('Z"', '+00:00"'))
            assert {**one, **item} == one, listing.name
    for missing in ("runs/7", "declared_surveys/7", "batch_scores/run01/7/7", "datasets/a/b"):
        assert client.get(f"{API}/{missing}").status_code == 404


def test_a_finished_run_is_kept_by_its_clients(client: TestClient) -> None:
    first = client.get(f"{API}/runs/run01")
    tag = {"If-None-Match": first.headers["etag"]}
    assert client.get(f"{API}/runs/run01", headers=tag).status_code == 304
    assert client.get(f"{API}/runs/run02", headers=tag).status_code == 200
    for tags in ("*", f'"other", W/{tag["If-None-Match"]}'):
        answer = client.get(f"{API}/runs/run01", headers={"If-None-Match": tags})
        assert answer.status_code == 304, tags
    assert client.get(f"{API}/runs/run07", headers={"If-None-Match": "*"}).status_code == 200
    assert "etag" not in client.get(f"{API}/runs/run07").headers


def test_facets_count_what_the_filters_leave(client: TestClient) -> None:
    asked = {"by": ["family", "year"], "architecture": ["net1", "net2"]}
    rows = items(client, "runs", architecture=["net1", "net2"])
    facets = client.get(f"{API}/runs/facets", params=asked).json()["items"]
    for column in asked["by"]:
        counts = {f["value"]: f["count"] for f in facets if f["column"] == column}
        texts = [None if row[column] is None else str(row[column]) for row in rows]
        assert counts == {text: texts.count(text) for text in texts}
    assert client.get(f"{API}/runs/facets").status_code == 422
    # A column that is named again is not counted again.
    again = client.get(f"{API}/runs/facets", params=asked | {"by": asked["by"] * 50})
    assert again.json()["items"] == facets


def test_each_parameter_may_be_given_so_often(client: TestClient) -> None:
    for path, methods in client.get(f"{API}/openapi.json").json()["paths"].items():
        for parameter in methods.get("get", {}).get("parameters", ()):
            # One that may be left out may be null, too.
            schema = parameter["schema"]
            for each in (schema, *schema.get("anyOf", ())):
                if each.get("type") == "array":
                    assert each["maxItems"] <= MOST_VALUES, (path, parameter["name"])
    for name in SEVERAL:
        (listing,) = (each for each in LISTINGS if each.name == name)
        (key, *_), many = listing.key, [str(number) for number in range(MOST_VALUES)]
        asked = [client.get(f"{API}/{name}", params={key: each}) for each in (many, [*many, "0"])]
        assert [each.status_code for each in asked] == [200, 422], name


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"nothing": "1"}, 422),
        ({"sort": "error"}, 422),
        ({"sort": "nothing"}, 422),
        ({"error": "*srv*"}, 422),
        ({"limit": 0}, 422),
        ({"limit": 10_001}, 422),
        ({"year": "x"}, 422),
        ({"year": 2**64}, 422),
        ({"measured_top1.min": "nan"}, 422),
        ({"next": "x"}, 400),
        ({"next": urlsafe_b64encode(b"[" * 5000).decode()}, 400),
        (
            {
                "sort": "year",
                "next": urlsafe_b64encode(b'[["year", "run_id"], [true, ""]]').decode(),
            },
            400,
        ),
        ({"next": "bnVsbA=="}, 400),
        ({"next": "W1sicnVuX2lkIl0sW1sxXV1d"}, 400),
        ({"next": "W1siLXllYXIiXSxbIngiXV0="}, 400),
    ],
)
def test_what_cannot_be_listed_is_refused(
    client: TestClient, asked: dict[str, Any], status: int
) -> None:
    assert client.get(f"{API}/runs", params=asked).status_code == status


@pytest.mark.parametrize(
    ("name", "order", "values"),
    [
        *((each, ["run_id"], ["\ud800"]) for each in ("runs", "jobs")),
        *((each, ["name"], ["\ud800"]) for each in ("schedules", "saved_queries")),
        ("datasets", ["dataset"], ["\ud800"]),
        ("events", ["id"], ["\ud800"]),
        *((each, ["id"], [2**70]) for each in ("declared_surveys", "surveys")),
        *(("surveys", ["id"], [number]) for number in (2**63, -(2**63) - 1)),
        ("surveys", ["submitted_at", "id"], ["0001-01-01T00:00:00+14:00", 1]),
        ("surveys", ["submitted_at", "id"], ["2026-11-02T08:00:00", 1]),
    ],
)
def test_tokens_of_what_no_database_holds_are_refused(
    client: TestClient, name: str, order: list[str], values: list[Any]
) -> None:
    token = urlsafe_b64encode(json.dumps([order, values]).encode()).decode()
    asked = {"sort": order[0], "next": token}
    assert client.get(f"{API}/{name}", params=asked).status_code == 400


def test_filters_by_what_no_database_holds_are_refused(client: TestClient) -> None:
    for name, value in (("id", 2**63), ("submitted_at.min", "9999-12-31T23:59:59-14:00")):
        assert client.get(f"{API}/surveys", params={name: value}).status_code == 422
    assert client.get(f"{API}/surveys/{2**63}").status_code in (404, 422)


@pytest.mark.parametrize("asked", ["state=a%00b", "search=a%00b", "run_id.not=%00"])
def test_texts_that_no_registry_holds_are_refused(client: TestClient, asked: str) -> None:
    assert client.get(f"/api/v1/jobs?{asked}").status_code == 422


def test_no_answer_names_a_path(client: TestClient, home: Home) -> None:
    for listing in LISTINGS:
        text = client.get(f"{API}/{listing.name}.csv", params={"fields": listing.names}).text
        assert not shown_paths(text, home.path), listing.name
        assert "secret" not in text, listing.name
        assert "someone" not in text, listing.name
    found = client.get(f"{API}/runs/run07").json()
    assert found["error"] == "w7.pth is no file"
    assert 'File "torch/nn/linear.py", line 7' in found["traceback"]
    assert 'File "model.py", line 3' in found["traceback"]
    token = client.get(f"{API}/runs", params={"sort": "checkpoint", "limit": 1}).json()["next"]
    assert (
        client.get(f"{API}/runs", params={"sort": "-checkpoint", "next": token}).status_code == 400
    )


def test_the_schema_declares_each_list(client: TestClient) -> None:
    schema = client.get(f"{API}/openapi.json").json()
    for listing in LISTINGS:
        operation = schema["paths"][f"{API}/{listing.name}"]["get"]
        names = {each["name"] for each in operation["parameters"]}
        assert {"sort", "fields", "limit", "next", "search"} <= names
        assert {column.name for column in listing.scalars} <= names
        assert {"application/json", "text/csv"} <= operation["responses"]["200"]["content"].keys()


def test_models_are_those_of_the_view_also_when_runs_are_added(
    client: TestClient, home: Home
) -> None:
    numbers = ["affinity", "affinity_min", "affinity_median", "affinity_max"]
    shown = ["run_id", "flags", "status", *numbers]

    def agree() -> None:
        listed = items(client, "models", fields=shown)
        stored = query(home, f"SELECT {', '.join(shown)} FROM models ORDER BY run_id").to_pylist()
        assert len(listed) == len(stored)
        for one, other in zip(listed, stored, strict=True):
            close = {name: pytest.approx(other[name]) for name in numbers if other[name]}
            assert one == {**other, **close}

    agree()
    with Builder(home.path) as build:
        build.number = 20
        build("run20", [[0.5, 0.75]], architecture="new", ridge="relative")
        # The same run, measured again.
        build("run01", [[0.125, 0.25, 0.5]], architecture="net1", ridge="relative")
    agree()
