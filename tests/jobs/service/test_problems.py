"""Errors over HTTP: problem JSON with the product's hint, and nothing about this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import APIRouter, Request

from catalog.home import Home
from jobs.operations.server_paths import without_folders, without_paths
from survey.errors import ClusterError, QueryError, StoreError, SurveyError, UnknownName
from tests.jobs.service.conftest import Serve, shown_paths

ERRORS: dict[str, SurveyError | Exception] = {}

router = APIRouter()


@router.get("/raise/{name}")
def fail(name: str) -> None:
    raise ERRORS[name]


@router.post("/read")
async def read(request: Request) -> int:
    return len(await request.body())


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (SurveyError("wrong", hint="right"), 400, "SurveyError"),
        (QueryError("no such column", hint="right"), 400, "QueryError"),
        (UnknownName("family", "x", ["xy"], "right"), 404, "UnknownName"),
        (StoreError("busy", hint="right"), 503, "StoreError"),
        (ClusterError("away", hint="right"), 503, "ClusterError"),
    ],
)
def test_an_error_is_a_problem_with_its_hint(
    serve: Serve, error: SurveyError, status: int, kind: str
) -> None:
    ERRORS["it"] = error
    answer = serve(router).get("/raise/it")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["type"].endswith(f":{kind}")
    assert (problem["detail"], problem["hint"]) == (error.message, "right")


def test_no_problem_names_a_path(serve: Serve, home: Home, tmp_path: Path) -> None:
    allowed = tmp_path / "my pictures"
    ERRORS["it"] = StoreError(
        f"{home.signatures} and {allowed}/a.pth cannot be read: file:{home.path}/b c.pth[:9]",
        hint=f"look into '{home.logs}'",
    )
    client = serve(router, allowed=(allowed,))
    answer = client.get("/raise/it").json()
    assert answer["detail"] == (
        "survey-home/signatures.duckdb and my pictures/a.pth cannot be read:"
        " file:survey-home/b c.pth[:9]"
    )
    assert answer["hint"] == "look into 'survey-home/logs'"
    assert not shown_paths(str(answer), home.path)
    ERRORS["it"] = ValueError(f"unexpected {home.path}")
    answer = client.get("/raise/it")
    assert answer.status_code == 500
    assert not shown_paths(answer.text, home.path)
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("address", "status"),
    [("/nosuch", 404), ("/mcp", 405), ("/raise/it", 500), ("/models/nosuch/", 404)],
)
def test_browsers_get_a_page(serve: Serve, address: str, status: int) -> None:
    ERRORS["it"], client = ValueError("unexpected"), serve(router)
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    answers = [client.get(address, headers=each) for each in (browser, {}, {"Accept": "text/css"})]
    assert [each.status_code for each in answers] == [status] * 3
    page, *others = (each.headers["content-type"].partition(";")[0] for each in answers)
    assert (page, set(others)) == ("text/html", {"application/problem+json"})
    assert 'class="problem"' in answers[0].text
    # A sentence, not the name of the status alone.
    assert answers[1].json()["detail"] != answers[1].json()["title"]
    assert answers[0].headers.get("allow") == answers[1].headers.get("allow")
    below_api = client.get(f"/api/v1{address}", headers=browser)
    assert below_api.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/srv/zoo/a.pth is damaged", "a.pth is damaged"),
        ("/srv/my zoo/a.pth and /b c/d.pth are", "a.pth and d.pth are"),
        ("file:/srv/zoo/a.pth@x", "file:a.pth@x"),
        ("'../zoo/a.pth', ~/b/c.pth", "'a.pth', c.pth"),
        ('File "/usr/lib/python3/torch/nn.py", line 7', 'File "nn.py", line 7'),
        ("torchvision:resnet50/V2", "torchvision:resnet50/V2"),
        ("https://host/a/b", "https://host/a/b"),
        ("1/2 of and/or", "1/2 of and/or"),
    ],
)
def test_paths_end_at_their_last_name(text: str, expected: str) -> None:
    assert without_paths(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/ " * 500_000, "/ " * 500_000),
        (f"file:/b/{'a' * 1_000_000}", f"file:{'a' * 1_000_000}"),
    ],
    ids=["slashes", "letters"],
)
@pytest.mark.timeout(60)
def test_paths_are_looked_for_in_proportion_to_the_text(text: str, expected: str) -> None:
    # In time that grows with the square of the letters, neither would end.
    assert without_folders(text) == expected


def test_a_body_has_a_limit(serve: Serve) -> None:
    client = serve(router, most_body_bytes=100)

    def pieces() -> Iterator[bytes]:
        yield from [b"x" * 60] * 2

    # Also one whose length no header states.
    for content in (b"x" * 101, pieces()):
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = client.post("/read", content=content, headers=form)
        assert answer.status_code == 413
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.json()["detail"] == "a request's body has at most 100 bytes"
