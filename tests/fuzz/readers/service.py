"""Requests of the service's clients, and forms of its pages."""

from __future__ import annotations

import json
import re
import tempfile
from functools import cache
from pathlib import Path
from urllib.parse import quote, urlencode

from fastapi.testclient import TestClient

from catalog.open_home import open_home
from jobs.service.access.forms import FIELD
from jobs.service.application import make_application
from jobs.service.settings import ServiceSettings
from tests.fuzz.readers.base import Target

_SURVEY = {
    "name": "zoo",
    "models": [{"name": "small:digits_*", "checkpoints": ["bundled", "init:0"]}],
    "datasets": [{"name": "digits", "limit": 64}],
    "settings": {"images_per_score": 128, "ridge": "relative"},
    "tags": {"lr": 0.1},
}
_SCHEDULE = {"name": "weekly", "survey": _SURVEY, "cron": "@weekly", "timezone": "Europe/Paris"}
_CALL = {"jsonrpc": "2.0", "id": 1}
_TOOL = {"name": "compare", "arguments": {"model": ["a"], "order": "x"}}
#: Methods, addresses and bodies that are answered.
_REQUESTS: tuple[tuple[str, str, object], ...] = (
    ("POST", "/api/v1/surveys", _SURVEY),
    ("POST", "/api/v1/surveys", {"models": [{"name": "torchvision:resnet18"}]}),
    ("POST", "/api/v1/schedules", _SCHEDULE),
    ("POST", "/api/v1/surveys/1/cancel", {}),
    ("POST", "/api/v1/surveys/1/retry", {}),
    ("DELETE", "/api/v1/schedules/weekly", None),
    ("GET", "/api/v1/surveys?state=queued&limit=2&next=3", None),
    ("GET", "/api/v1/schedules/weekly?last=2", None),
    ("GET", "/api/v1/runs?architecture=a&measured_top1.min=0.5&sort=-year&fields=run_id", None),
    ("GET", "/api/v1/runs.csv?search=x&limit=10&next=bmV4dA", None),
    ("GET", "/api/v1/signatures/facets?by=family&by=year&limit=3", None),
    ("GET", "/api/v1/events?limit=2", None),
    ("GET", "/models?sort=architecture&fields=family", None),
    ("GET", "/sql?sql=SELECT", None),
    ("GET", "/api/v1/events.atom", None),
    ("POST", "/mcp", {**_CALL, "method": "initialize", "params": {"protocolVersion": "x"}}),
    ("POST", "/mcp", {**_CALL, "method": "tools/call", "params": {"name": "list"}}),
    ("POST", "/mcp", {**_CALL, "method": "tools/call", "params": _TOOL}),
    ("POST", "/api/v1/saved_queries", {"name": "a", "sql": "SELECT 1"}),
)


#: Addresses and fields of forms.
_FORMS: tuple[tuple[str, dict[str, str]], ...] = (
    ("/scan/surveys", {"models": "small:digits_*", "checkpoints": "bundled", "dataset": "digits"}),
    ("/scan/surveys", {"models": "a", "images_per_score": "auto"}),
    ("/scan/surveys", {"survey": '[[models]]\nname = "small:digits_vgg7"\n[tags]\nlr = 0.1'}),
    ("/scan/surveys/1/retry", {}),
    ("/schedules", {"name": "weekly", "models": "small:digits_vgg7", "cron": "@weekly"}),
    ("/schedules/weekly/pause", {}),
    ("/sql/saved", {"name": "mine", "query": "SELECT 1"}),
)


@cache
def _client() -> TestClient:
    home = open_home(Path(tempfile.mkdtemp()) / "survey-home", create=True)
    app = make_application(ServiceSettings(home))
    # What no handler explains is raised, and is a finding.
    return TestClient(app, base_url="http://127.0.0.1:8765")


@cache
def _form_token() -> str:
    shown = re.search(f'name="{FIELD}" value="([0-9a-f]+)"', _client().get("/scan").text)
    assert shown is not None
    return shown[1]


def _form(data: bytes, _folder: Path) -> None:
    """A form: taken, or refused with what is wrong about it; the page afterwards is whole."""
    given = _asked(data) or {}
    address, fields = str(given.get("address")), given.get("fields")
    token = f"{FIELD}={_form_token()}&".encode()
    # What is no document is a form as it is.
    body = urlencode(fields if isinstance(fields, dict) else {}, errors="replace").encode()
    if not address.isprintable() or not address.startswith("/"):
        address = "/scan/surveys"
    headers = {"content-type": "application/x-www-form-urlencoded"}
    path = quote(address, safe="/", errors="replace")
    _client().post(path, content=token + (body or data), headers=headers, follow_redirects=False)
    for page in ("/scan", "/schedules", "/sql"):
        assert _client().get(page).status_code == 200


def _request(data: bytes, _folder: Path) -> None:
    """A request: answered, or refused with what is wrong about it."""
    request = _asked(data)
    if request is None:
        _client().post("/api/v1/surveys", content=data, headers=_JSON)
        return
    method, address = str(request.get("method")), str(request.get("address"))
    content = request.get("body")
    body = (
        content.encode("utf-8", "replace")
        if isinstance(content, str)
        else json.dumps(content).encode()
    )
    sent = body if method in ("POST", "PUT", "PATCH") else None
    try:
        asked = _client().build_request(method, address, content=sent, headers=_JSON)
    except Exception:  # noqa: BLE001 - this client sends no such address
        return
    _client().send(asked)


def _asked(data: bytes) -> dict[str, object] | None:
    try:
        request = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return request if isinstance(request, dict) else None


_JSON = {"content-type": "application/json"}


def _requests() -> list[bytes]:
    keys = ("method", "address", "body")
    return [json.dumps(dict(zip(keys, each, strict=True))).encode() for each in _REQUESTS]


def _forms() -> list[bytes]:
    return [json.dumps({"address": each, "fields": fields}).encode() for each, fields in _FORMS]


TARGETS = {
    "request": Target(_request, _requests, document=True),
    "form": Target(_form, _forms, document=True),
}
