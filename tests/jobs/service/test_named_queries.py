"""Named queries over HTTP: rows, filters and facets as SQL gives them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

from catalog.home import Home
from catalog.store.page_queries import DECIMALS
from catalog.store.queries import named_queries, signatures_overview
from jobs.service.api.result_page import PageParameters, page_of
from jobs.service.application import make_application
from jobs.service.settings import ServiceSettings
from tests.analysis.homes import Builder

API = "/api/v1/queries"


@pytest.fixture(scope="module")
def client(home: Home) -> Iterator[TestClient]:
    with Builder(home.path) as build:
        for number in range(5):
            build(f"r{number}", [0.5, 0.25], dataset="ab"[number % 2], checkpoint=f"w{number}")
    with TestClient(
        make_application(ServiceSettings(home)), base_url="http://localhost:8765"
    ) as client:
        yield client


def test_every_query_has_an_address(client: TestClient) -> None:
    for each in client.get(API).json()["items"]:
        address = f"{API}/{each['name'].replace('_', '-')}"
        asked = {"run": "r1"} if each["of_runs"] else {}
        assert client.get(address, params=asked).status_code == 200, each["name"]
    assert len(client.get(API).json()["items"]) == len(named_queries())
    assert client.get(f"{API}/run-sites").status_code == 422
    assert client.get(f"{API}/run-sites?run=r1&run=r2").status_code == 422
    for name in ("run-sites", "signatures-overview"):
        assert client.get(f"{API}/{name}?run=nothing").status_code == 404
    assert client.get(f"{API}/nothing").status_code == 404


def test_rows_are_those_of_the_store_page_by_page(client: TestClient, home: Home) -> None:
    whole = signatures_overview(home).to_pylist()
    rows, token = [], None
    while True:
        asked = {"limit": 2} | ({"next": token} if token else {})
        page = client.get(f"{API}/signatures-overview", params=asked).json()
        rows += page["items"]
        if (token := page["next"]) is None:
            break
    assert rows == whole
    # Without JSON, where `next` is.
    answer = client.get(f"{API}/signatures-overview.csv?limit=2")
    assert client.get(answer.links["next"]["url"]).text.count("\n") == 3
    wanted = {"where": ["dataset=A", "run_id=r?"], "facet": ["dataset", "batches"]}
    page = client.get(f"{API}/signatures-overview", params=wanted).json()
    assert page["items"] == [row for row in whole if row["dataset"] == "a"]
    assert page["facets"]["dataset"] == {"a": 3}
    assert page["facets"]["batches"] == {
        str(k): n for k, n in Counter(row["batches"] for row in page["items"]).items()
    }
    for wrong in (
        {"where": "nothing=1"},
        *({each: "nothing"} for each in ("facet", "sort", "fields")),
    ):
        assert client.get(f"{API}/signatures-overview", params=wrong).status_code == 422
    assert client.get(f"{API}/signatures-overview", params={"where": "x"}).status_code == 422
    assert client.get(f"{API}/signatures-overview?where=batches=x").status_code == 400


def test_rows_are_sorted_and_their_fields_chosen(client: TestClient, home: Home) -> None:
    whole = signatures_overview(home).to_pylist()
    rows, asked = [], {"sort": ["-dataset", "run_id"], "fields": ["run_id", "dataset"], "limit": 2}
    while True:
        page = client.get(f"{API}/signatures-overview", params=asked).json()
        rows += page["items"]
        if page["next"] is None:
            break
        asked["next"] = page["next"]
    wanted = sorted(whole, key=lambda row: (-ord(row["dataset"]), row["run_id"]))
    assert rows == [{name: row[name] for name in ("run_id", "dataset")} for row in wanted]
    # A token is of one order of one query's rows.
    for other in ({"sort": "run_id"}, {"where": "dataset=a"}):
        refused = client.get(f"{API}/signatures-overview", params=asked | other)
        assert refused.status_code == 400


def test_last_digits_of_means_move_no_row_to_another_page() -> None:
    drawn, means = np.random.default_rng(0), np.repeat(np.arange(20.0), 10)
    places, token = list[int](), None
    while True:
        # Of each query anew.
        rows = pa.table({"place": range(200), "mean": means + 1e-15 * drawn.standard_normal(200)})
        asked = PageParameters(sort=["-mean"], limit=7, next=token)
        page, token = page_of(rows, asked, ["q"], DECIMALS)
        places += page["place"].to_pylist()
        if token is None:
            break
    assert sorted(places) == list(range(200))


def test_small_numbers_are_in_their_order() -> None:
    values = pa.array([1e-15, None, 1e-13, 3e-15, float("nan"), -2e-14])
    for sort, places in (("p", [5, 0, 3, 2]), ("-p", [2, 3, 0, 5])):
        rows = pa.table({"place": range(6), "p": values})
        page, _ = page_of(rows, PageParameters(sort=[sort], fields=["place"]), ["q"])
        assert page["place"].to_pylist()[:4] == places


def test_a_token_is_of_what_the_home_held(client: TestClient, home: Home) -> None:
    asked = {"limit": "2"}
    asked["next"] = client.get(f"{API}/signatures-overview", params=asked).json()["next"]
    assert client.get(f"{API}/signatures-overview", params=asked).status_code == 200
    with Builder(home.path) as build:
        build("r9", [0.5, 0.25])
    assert client.get(f"{API}/signatures-overview", params=asked).status_code == 400
