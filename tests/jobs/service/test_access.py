"""Who is answered: hosts, origins, content types, tokens and forms."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from fastapi import APIRouter, Depends, Request
from fastapi.testclient import TestClient
from starlette.types import Message

from catalog.home import Home
from catalog.registry.registry import Registry
from catalog.registry.tokens import Tokens
from jobs.service.access.attempts import MOST_WRONG, WINDOW_SECONDS, WrongTokens
from jobs.service.access.forms import FIELD, form_token, require_form_token
from jobs.service.access.hosts import SAFE_METHODS
from survey.errors import StoreError
from tests.jobs.service.conftest import Serve

page = APIRouter(dependencies=[Depends(require_form_token)])
api = APIRouter(prefix="/api/v1")


@page.get("/form")
def form(request: Request) -> str:
    return form_token(request)


@page.post("/form")
def take_form(request: Request) -> str:
    return str(request.state.caller.name)


@api.post("/things")
def take_thing(thing: dict[str, int]) -> dict[str, int]:
    return thing


@api.get("/waiting")
async def wait() -> None:
    await asyncio.sleep(600)


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


@pytest.fixture
def local(serve: Serve) -> TestClient:
    return serve(page, api)


@pytest.fixture
def remote(serve: Serve) -> TestClient:
    return serve(page, api, host="0.0.0.0", names=("zoo.example.org",))


@pytest.mark.parametrize(
    ("host", "near", "far"),
    [
        ("127.0.0.1:8765", 200, 200),
        ("localhost", 200, 200),
        ("[::1]:8765", 200, 200),
        ("192.0.2.7:8765", 421, 200),
        ("zoo.example.org", 421, 200),
        ("ZOO.example.org:443", 421, 200),
        ("evil.example.org", 421, 421),
        ("127.0.0.1.evil.example.org", 421, 421),
        ("evil.example.org:8765@127.0.0.1", 421, 421),
        ("localhost/evil.example.org", 421, 421),
        ("", 421, 421),
    ],
)
def test_only_hosts_of_ours_are_answered(
    local: TestClient, remote: TestClient, host: str, near: int, far: int
) -> None:
    assert local.get("/healthz", headers={"Host": host}).status_code == near
    assert remote.get("/healthz", headers={"Host": host}).status_code == far


OTHERS = [
    {"Origin": "http://evil.example.org"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:8766"},
    {"Origin": "http://[bad"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
]


@pytest.mark.parametrize("headers", OTHERS)
def test_what_another_site_sends_changes_nothing(
    local: TestClient, headers: dict[str, str]
) -> None:
    assert local.post("/api/v1/things", json={}, headers=headers).status_code == 403
    same = {"Origin": "http://127.0.0.1:8765", "Sec-Fetch-Site": "same-origin"}
    assert local.post("/api/v1/things", json={"a": 1}, headers=same).json() == {"a": 1}


def test_another_site_may_link_here_and_read_nothing(local: TestClient) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    link |= {"Sec-Fetch-Dest": "document"}
    assert local.get("/form", headers=link).status_code == 200
    for other in ({"Sec-Fetch-Mode": "cors"}, {"Sec-Fetch-Dest": "iframe"}):
        assert local.get("/form", headers=link | other).status_code == 403
    answer = local.get("/form", headers={"Origin": "http://evil.example.org"})
    assert "access-control-allow-origin" not in answer.headers
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None]
)
def test_the_api_takes_json_alone(local: TestClient, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    answer = local.post("/api/v1/things", content=b'{"a": 1}', headers=headers)
    assert answer.status_code == 415
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_form_needs_the_token_of_its_page(local: TestClient, token: Callable[..., str]) -> None:
    mine, other = bearer(token("write")), bearer(token("write"))
    known = local.get("/form", headers=mine).json()
    assert local.post("/form", data={FIELD: known}, headers=mine).status_code == 200
    for wrong, caller in ((known, other), (known, {}), ("", mine), (known[:-1], mine), ("ä", mine)):
        assert local.post("/form", data={FIELD: wrong}, headers=caller).status_code == 403
    assert local.post("/form", data={"a": "b"}, headers=mine).status_code == 403
    assert local.post("/form", json={FIELD: known}, headers=mine).status_code == 415


def test_beyond_loopback_nothing_but_health_is_answered_without_a_token(
    remote: TestClient, token: Callable[..., str]
) -> None:
    paths = {"/nothing", "/api/v1/openapi.json", *remote.app.openapi()["paths"]}
    assert {"/metrics", "/form", "/healthz"} <= paths
    for path in paths:
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE"):
            status = remote.request(method, path).status_code
            assert status == 401 or path == "/healthz", (method, path)
    secret = token("read")
    assert remote.get("/metrics", headers=bearer(secret)).status_code == 200
    assert remote.get("/metrics", auth=("anybody", secret)).status_code == 200


def test_tokens_that_are_wrong_expired_or_revoked_let_nobody_in(
    serve: Serve, home: Home, token: Callable[..., str]
) -> None:
    now = datetime.now(UTC)
    good, expired, revoked = token(), token(expires_at=now - timedelta(seconds=1)), token()
    with Registry(home) as registry:
        registry.tokens.revoke(registry.tokens.of_secret(revoked).name, now)
    wrong = [expired, revoked, good[:-1], good.upper(), f"{good} {good}", ""]
    for settings in ({}, {"host": "0.0.0.0"}):
        client = serve(**settings)
        answers = [client.get("/metrics", headers=bearer(each)) for each in wrong]
        answers.append(client.get("/metrics", headers={"Authorization": "Basic !"}))
        assert [answer.status_code for answer in answers] == [401] * len(answers)
        assert "Basic" in answers[0].headers["www-authenticate"]
        assert client.get("/metrics", headers=bearer(good)).status_code == 200


def test_strangers_are_not_told_where_the_registry_lies(
    remote: TestClient, home: Home, token: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = token()

    def fails(*_: object) -> None:
        raise StoreError(f"the registry {home.registry} cannot be used")

    monkeypatch.setattr(Tokens, "of_secret", fails)
    for given in (secret, "wrong"):
        answer = remote.get("/metrics", headers=bearer(given))
        assert answer.status_code == 503
        assert home.registry.name not in answer.text


def test_a_token_that_may_read_changes_nothing(
    remote: TestClient, token: Callable[..., str]
) -> None:
    reads, writes = bearer(token("read")), bearer(token("write"))
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert method not in SAFE_METHODS
        answer = remote.request(method, "/api/v1/things", json={"a": 1}, headers=reads)
        assert answer.status_code == 403
    assert remote.post("/api/v1/things", json={"a": 1}, headers=writes).status_code == 200
    assert remote.get("/form", headers=writes).status_code == 200


def test_wrong_tokens_are_limited_by_address(remote: TestClient, token: Callable[..., str]) -> None:
    wrong = [remote.get("/metrics", headers=bearer("x")).status_code for _ in range(MOST_WRONG)]
    assert wrong == [401] * MOST_WRONG
    answer = remote.get("/metrics", headers=bearer(token()))
    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= WINDOW_SECONDS
    assert remote.get("/healthz").status_code == 200


def test_a_token_that_is_over_locks_nobody_out(
    remote: TestClient, home: Home, token: Callable[..., str]
) -> None:
    now = datetime.now(UTC)
    expired, revoked = token(expires_at=now - timedelta(seconds=1)), token()
    with Registry(home) as registry:
        registry.tokens.revoke(registry.tokens.of_secret(revoked).name, now)
    for each in (expired, revoked) * MOST_WRONG:
        assert remote.get("/metrics", headers=bearer(each)).status_code == 401
    assert remote.get("/metrics", headers=bearer(token())).status_code == 200


def test_wrong_tokens_are_forgotten_in_time() -> None:
    now = [0.0]
    wrong = WrongTokens(lambda: now[0])
    for _ in range(MOST_WRONG):
        assert wrong.seconds_to_wait("a") == 0
        wrong.count("a")
        now[0] += 1
    assert wrong.seconds_to_wait("b") == 0
    assert wrong.seconds_to_wait("a") == WINDOW_SECONDS - MOST_WRONG
    now[0] = WINDOW_SECONDS
    assert wrong.seconds_to_wait("a") == 0


def test_what_a_service_stops_before_it_is_answered_is_refused(local: TestClient) -> None:
    sent = list[Message]()
    headers = [(b"host", b"127.0.0.1:8765")]
    scope = {"type": "http", "method": "GET", "path": "/api/v1/waiting", "query_string": b""}

    async def receive() -> Message:
        await asyncio.sleep(600)
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    async def stop() -> None:
        answering = asyncio.create_task(local.app({**scope, "headers": headers}, receive, send))
        await asyncio.sleep(0.3)
        answering.cancel()
        await answering

    asyncio.run(stop())
    assert sent[0]["status"] == 503
    assert b"problem+json" in dict(sent[0]["headers"])[b"content-type"]
