"""What a service answers, or another server in its place, to the command line that asks it."""

from __future__ import annotations

import contextlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pyarrow as pa
import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPResponse

from analysis.report.folder import MARKER
from catalog.store.plain_types import plain_table
from jobs.cli.output import TableOptions, emit_rows
from jobs.cli.server import run_there
from jobs.operations.report_archive import unpack_report
from jobs.operations.status import COLUMNS
from jobs.planning.definition import parse_definition
from jobs.service_client import ServiceClient
from survey.errors import SurveyError
from tests.fuzz.readers.base import Target

_STANDING = {
    **dict.fromkeys(("id", "measured", "failed", "skipped"), 1),
    "name": "zoo",
    "state": "running",
    "reason": None,
}
_JOB = {
    **dict.fromkeys(("run_id", "architecture", "checkpoint", "dataset", "state"), "a"),
    **dict.fromkeys(("batches", "images", "attempts", "top1"), 1),
    **dict.fromkeys(("suspicion", "error")),
}
_JOBS = {"items": [_JOB], "jobs": 1, "flags": ["b"], "summary": "1 done"}
_PROBLEM = {"type": "urn:model-zoo-survey:error:QueryError", "detail": "no table", "hint": "b"}


class _Server(HTTPAdapter):
    """Answers every request alike: a status and headers, one a line, then a body."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        head, _, self._body = data.partition(b"\n\n")
        status, *lines = head.decode("latin-1").split("\n")
        self._status = int(status) if status.isdecimal() and len(status) == 3 else 200
        self._headers = [tuple(line.split(":", 1)) for line in lines if ":" in line]

    def send(self, request: requests.PreparedRequest, **_: object) -> requests.Response:  # type: ignore[override]
        answer = HTTPResponse(
            io.BytesIO(self._body), self._headers, self._status, preload_content=False
        )
        return self.build_response(request, answer)


def _asking(ask: Callable[[ServiceClient, Path], object]) -> Callable[[bytes, Path], None]:
    """Return a target that asks something of a service."""

    def target(data: bytes, folder: Path) -> None:
        client = ServiceClient("http://127.0.0.1:8765")
        client._session.mount("http://", _Server(data))
        # A survey that never ends is waited for: of that, one look.
        over = mock.Mock(side_effect=SurveyError("enough"))
        shown = io.TextIOWrapper(io.BytesIO())
        with (
            mock.patch("time.sleep", over),
            contextlib.redirect_stderr(io.StringIO()),
            contextlib.redirect_stdout(shown),
        ):
            ask(client, folder)

    return target


def _rows(client: ServiceClient, _folder: Path) -> None:
    for ask in (client.sql, client.listed, lambda _: client.saved_queries()):
        with contextlib.suppress(SurveyError):
            ask("jobs")
    with contextlib.suppress(SurveyError):
        plain_table(client.sql("jobs"), "json")


def _report(client: ServiceClient, folder: Path) -> None:
    unpack_report(client.report({}), folder / "report")


def _standing(client: ServiceClient, folder: Path) -> None:
    definition = parse_definition({"models": [{"name": "small:net"}]}, "zoo", folder)
    with contextlib.suppress(SurveyError):
        emit_rows([each.row() for each in client.status().items], COLUMNS, "csv")
    run_there(client, definition, TableOptions())


def _answer(body: bytes, *headers: str, status: int = 200) -> bytes:
    return "\n".join((str(status), *headers)).encode() + b"\n\n" + body


def _tables() -> list[bytes]:
    table = pa.table({"name": pa.array(["a", "b"]).dictionary_encode(), "sql": ["x", None]})
    files = []
    for compression in (None, "zstd"):
        stream = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with pa.ipc.new_stream(stream, table.schema, options=options) as opened:
            opened.write_table(table)
        files.append(stream.getvalue().to_pybytes())
    return [
        *(_answer(each) for each in files),
        _answer(files[0], 'Link: </api/v1/jobs.arrow?next=x>; rel="next"'),
        _answer(json.dumps(_PROBLEM).encode(), "Location: http://b", status=302),
    ]


def _reports() -> list[bytes]:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(MARKER, json.dumps({"title": "zoo", "runs": 1}))
        archive.writestr("figures/a.svg", "<svg/>" * 100)
    return [_answer(made.getvalue())]


def _document(data: bytes, folder: Path) -> None:
    """JSON as the answer to everything, and as the refusal of everything."""
    for status in (200, 422):
        with contextlib.suppress(SurveyError):
            _asking(_standing)(_answer(data, status=status), folder)


TARGETS = {
    "answered_rows": Target(_asking(_rows), _tables),
    "answered_report": Target(_asking(_report), _reports),
    "answered_json": Target(
        _document,
        lambda: [
            json.dumps({**_STANDING, "scan": {"jobs": 3, "done": 1}, **_PROBLEM, **_JOBS}).encode()
        ],
        document=True,
    ),
}
