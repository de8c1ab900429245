"""The Model Context Protocol: its tools are operations of the API, with their answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from jsonschema import Draft202012Validator

from catalog.home import Home
from catalog.store.queries import named_queries
from jobs.service.application import make_application
from jobs.service.mcp import MOST_BYTES, TOOLS, VERSIONS
from jobs.service.settings import ServiceSettings
from tests.analysis.homes import Builder
from tests.jobs.service.conftest import Serve

pytestmark = pytest.mark.slow(seconds=8)


@pytest.fixture(scope="module")
def client(home: Home) -> Iterator[TestClient]:
    rng = np.random.default_rng(2)
    with Builder(home.path) as build:
        for number in range(3):
            build(f"r{number}", rng.random((2, 6)), architecture=f"net{number}")
    with TestClient(
        make_application(ServiceSettings(home)), base_url="http://localhost:8765"
    ) as client:
        yield client


def asked(client: TestClient, method: str, **params: Any) -> dict[str, Any]:
    call = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    # Halves of letters, too, are sent as JSON spells them.
    kind = {"Content-Type": "application/json"}
    answer = client.post("/mcp", content=json.dumps(call), headers=kind).json()
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", 7)
    given: dict[str, Any] = answer.get("result") or answer["error"]
    return given


def test_a_client_and_the_service_agree_on_a_version(client: TestClient) -> None:
    for version in VERSIONS:
        assert asked(client, "initialize", protocolVersion=version)["protocolVersion"] == version
    agreed = asked(client, "initialize", protocolVersion="1999-01-01")
    assert agreed["protocolVersion"] == VERSIONS[0]
    assert agreed["capabilities"] == {"tools": {}}
    notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert client.post("/mcp", json=notice).status_code == 202
    other = {"MCP-Protocol-Version": "1999-01-01"}
    assert client.post("/mcp", json=notice, headers=other).status_code == 400
    assert client.get("/mcp").status_code == 405
    assert (
        client.post("/mcp", content=b"x", headers={"Content-Type": "text/plain"}).status_code == 415
    )
    assert client.post("/mcp", json={"id": 1}).status_code == 422


def test_tools_answer_as_their_operations_do(client: TestClient) -> None:
    tools = {each["name"]: each for each in asked(client, "tools/list")["tools"]}
    assert set(tools) == set(TOOLS)
    assert tools["signature"]["description"] == named_queries()["run_sites"].sentence
    calls: dict[str, dict[str, Any]] = {
        "list": {"where": ["architecture=net1"], "limit": 5},
        "signature": {"run": ["r1"]},
        "compare": {"model": ["net0", "net2"]},
        "sql": {"sql": "SELECT run_id FROM runs ORDER BY 1", "limit": None},
    }
    for name, arguments in calls.items():
        schema = tools[name]["inputSchema"]
        Draft202012Validator.check_schema(schema)
        Draft202012Validator(schema).validate(arguments)
        assert not Draft202012Validator(schema).is_valid({**arguments, "other": 1})
        needed = {"signature": "run", "sql": "sql"}.get(name)
        assert Draft202012Validator(schema).is_valid({}) == (needed is None)
        given = asked(client, "tools/call", name=name, arguments=arguments)
        method, path = TOOLS[name]
        details = {"json": arguments} if method == "post" else {"params": arguments}
        assert not given["isError"]
        assert given["content"] == [
            {"type": "text", "text": client.request(method, path, **details).text}  # type: ignore[arg-type]
        ]
        assert json.loads(given["content"][0]["text"])["items"]


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("sql", {"sql": "FROM read_text('/etc/passwd')"}, "hint"),
        ("sql", {"sql": "SELECT '\ud800'"}, '"status":400'),
        ("sql", {}, "sql"),
        ("signature", {"run": ["nothing"]}, "nothing"),
        ("signature", {"run": ["r0"], "path": "/etc"}, "path"),
        ("compare", {"model": {"a": 1}}, "a"),
    ],
)
def test_what_the_api_refuses_is_an_error_of_the_tool(
    client: TestClient, name: str, arguments: dict[str, Any], words: str
) -> None:
    given = asked(client, "tools/call", name=name, arguments=arguments)
    assert given["isError"]
    assert words in given["content"][0]["text"]


def test_an_answer_is_as_long_as_a_message_may_be(client: TestClient) -> None:
    def called(sql: str, **limit: int) -> dict[str, Any]:
        return asked(client, "tools/call", name="sql", arguments={"sql": sql, **limit})

    long = called("SELECT repeat('x', 1000) AS a FROM range(3000)", limit=2000)
    (content,) = long["content"]
    assert long["isError"]
    assert "LIMIT" in json.loads(content["text"])["hint"]
    assert len(content["text"]) < 1000
    # Also one piece alone.
    assert called(f"SELECT repeat('x', {MOST_BYTES}) AS a")["isError"]
    for limit, rows in (({}, 3000), ({"limit": 2000}, 2000)):
        given = called("FROM range(3000)", **limit)
        assert len(json.loads(given["content"][0]["text"])["items"]) == rows


def test_what_is_no_tool_is_an_error_of_the_protocol(client: TestClient) -> None:
    assert asked(client, "tools/call", name="surveys", arguments={})["code"] == -32602
    assert asked(client, "tools/call", name="sql", arguments=[1])["code"] == -32602
    assert asked(client, "resources/list")["code"] == -32601


@pytest.mark.parametrize("wrong", [{"id": "\ud800"}, {"method": "\ud800"}])
def test_texts_that_cannot_be_encoded_are_refused(serve: Serve, wrong: dict[str, str]) -> None:
    call = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "ping", **wrong})
    answer = serve().post("/mcp", content=call, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422


def test_a_token_that_may_read_is_enough_and_needed(serve: Serve, token: Any) -> None:
    remote = serve(host="0.0.0.0", names=("127.0.0.1",))
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    call |= {"params": {"name": "list", "arguments": {}}}  # type: ignore[dict-item]
    assert remote.post("/mcp", json=call).status_code == 401
    bearer = {"Authorization": f"Bearer {token('read')}"}
    given = remote.post("/mcp", json=call, headers=bearer)
    assert given.json()["result"]["isError"] is False
