"""The client of a service: what it asks is in the schema, and what it is refused is explained."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pyarrow as pa
import pytest
import requests
from typer.testing import CliRunner

from analysis.report.folder import MARKER
from bench.sql_service import served
from catalog.home import Home
from catalog.store.plain_types import plain_table
from jobs.choices import ResultFormat
from jobs.cli.main import app
from jobs.cli.output import TableOptions
from jobs.cli.server import TOKEN, ServerOptions, _line, run_there
from jobs.cli.verb import REGISTRY
from jobs.operations import report_archive
from jobs.operations.report_archive import unpack_report
from jobs.operations.sql_query import SqlQuery
from jobs.operations.status import standing
from jobs.operations.table_formats import write_batches
from jobs.planning.definition import parse_definition
from jobs.runners.options import Limits, RunnerOptions
from jobs.service_client import ServiceAnswer, ServiceClient, SurveyStanding
from survey.errors import QueryError, SettingsError, SurveyError, UnreachableError

pytestmark = pytest.mark.slow(seconds=8)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("client") / "home")


@pytest.fixture(scope="module")
def url(home: Home) -> Iterator[str]:
    with served(home) as (address, _):
        yield address


def test_what_is_asked_is_answered_and_in_the_schema(
    url: str, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, asked = ServiceClient(url), set()
    ask = client.ask

    def noting(method: str, path: str, *content: object) -> ServiceAnswer:
        asked.add((method.lower(), path.partition("?")[0].replace(".arrow", "")))
        return ask(method, path, *content)

    monkeypatch.setattr(client, "ask", noting)
    assert client.sql("SELECT 1 AS a").to_pylist() == [{"a": 1}]
    assert client.listed("jobs").num_rows == 0
    survey = {"models": [{"name": "small:digits_vgg7"}], "settings": {"images_per_score": 128}}
    definition = parse_definition(
        # A file's name may be longer than a name that is declared.
        {**survey, "datasets": [{"name": "digits:heldout", "limit": 128}]},
        "zoo" * 70,
        Path(),
    )
    assert run_there(client, definition, TableOptions()) == 0
    assert client.listed("jobs").num_rows == 1
    assert client.listed("jobs", {"state": ["done"], "limit": 1}).num_rows == 1
    assert client.listed("jobs", {"state.not": "done"}).num_rows == 0
    # As the same machine shows it.
    assert client.status() == standing(home)
    assert client.status(1).items[0].top1 == pytest.approx(126 / 128)
    client.save_query("how many?", "SELECT count(*) FROM runs")
    assert client.saved_queries() == {"how many?": "SELECT count(*) FROM runs"}
    client.remove_query("how many?")
    assert client.saved_queries() == {}
    asked_for = {"model": ["digits*"], "all_runs": True, "title": "zoo"}
    marker = unpack_report(client.report(asked_for), tmp_path / "out")
    assert (marker.title, marker.runs) == ("zoo", 1)
    files = {p.relative_to(tmp_path / "out").as_posix(): p for p in tmp_path.rglob("*.*")}
    assert sorted(files) == json.loads(files[MARKER].read_text())["files"]
    assert not any(str(home.path).encode() in path.read_bytes() for path in files.values())
    with pytest.raises(SurveyError, match="nothing"):
        client.report({"model": "nothing"})
    paths = requests.get(f"{url}/api/v1/openapi.json", timeout=60).json()["paths"]
    known = [
        (method, re.compile(re.sub(r"{\w+}", "[^/]+", path.removeprefix("/api/v1"))))
        for path, each in paths.items()
        for method in each
    ]
    assert len(asked) >= 8
    for method, path in asked:
        assert any(method == each and form.fullmatch(path) for each, form in known), path


@pytest.mark.parametrize("name", ["../stolen", "/stolen", "a/../../stolen"])
def test_no_archive_writes_beside_its_report(tmp_path: Path, name: str) -> None:
    file = BytesIO()
    with ZipFile(file, "w") as archive:
        archive.writestr(MARKER, "{}")
        archive.writestr(name, "x")
    with pytest.raises(SurveyError):
        unpack_report(file, tmp_path / "out")
    with pytest.raises(SurveyError):
        unpack_report(BytesIO(b"no archive"), tmp_path / "out")
    assert not list(tmp_path.rglob("*"))


@pytest.mark.parametrize("bound", ["MOST_BYTES_A_FILE", "MOST_BYTES"])
def test_no_report_unpacks_to_more_than_it_may(
    tmp_path: Path, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = BytesIO()
    with ZipFile(file, "w", ZIP_DEFLATED) as archive:
        archive.writestr(MARKER, json.dumps({"title": "A survey", "runs": 1}))
        for page in range(3):
            archive.writestr(f"{page}.html", bytes(400))
    enough = {"MOST_BYTES_A_FILE": 400, "MOST_BYTES": 1200}[bound]
    monkeypatch.setattr(report_archive, bound, enough - 1)
    with pytest.raises(SurveyError):
        unpack_report(file, tmp_path / "out")
    assert not list(tmp_path.rglob("*"))
    monkeypatch.setattr(report_archive, bound, enough)
    assert unpack_report(file, tmp_path / "out").runs == 1


def test_what_is_refused_is_explained_as_at_home(url: str) -> None:
    with pytest.raises(QueryError) as caught:
        ServiceClient(url).sql("SELECT afinity FROM signatures")
    assert "affinity" in str(caught.value.hint)
    with pytest.raises(SurveyError, match="token") as refused:
        ServiceClient(url, "wrong").saved_queries()
    assert "wrong" not in str(refused.value)
    with pytest.raises(UnreachableError):
        ServiceClient("http://127.0.0.1:1").saved_queries()
    for address in ("localhost:8765", "http://", "http://[x", "http://host:99999"):
        with pytest.raises(SettingsError):
            ServiceClient(address)


def test_a_survey_is_shown_with_its_own_numbers_and_failures(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    standing = dict.fromkeys(("reason", "measured", "failed", "skipped")) | {"id": 2, "name": "zoo"}
    former = {"jobs": 6, "done": 6, "began_at": 10.0}
    looks = iter(
        [
            ("queued", None),
            ("running", ("survey 1 (zoo)", 9.0, former)),
            ("running", ("survey 2 (zoo)", 20.0, former)),
            ("running", ("survey 2 (zoo)", 20.0, {"jobs": 1, "done": 0, "began_at": 20.5})),
            ("done", None),
        ]
    )
    driver: list[tuple[str, float, dict[str, float]]] = []
    failed = dict.fromkeys(("run_id", "architecture", "checkpoint", "dataset"), "r2")
    failed |= dict.fromkeys(("batches", "images", "attempts"), 0) | {"state": "failed"}
    failed |= dict.fromkeys(("top1", "suspicion")) | {"error": "no such weights"}
    # Restarted just after the survey's end: each is asked for twice.
    away = {"/status", "/queries/signatures-overview.arrow"}

    def answer(_method: str, path: str, *_: object) -> ServiceAnswer:
        if (place := path.partition("?")[0]) in away:
            away.remove(place)
            raise UnreachableError("the service stops")
        if path == "/progress":
            ((doing, since, scan),) = driver[-1:]
            return reply({"driver": {"doing": doing, "since": since}, "scan": scan})
        if path == "/surveys":
            return reply({**standing, "state": "queued"})
        if path == "/status?survey=2":
            return reply({"items": [failed], "jobs": 1, "flags": [], "summary": "1 failed"})
        if path.startswith("/queries/signatures-overview.arrow?"):
            stream = BytesIO()
            rows = pa.table({"run_id": ["r1", "r2"]})
            with pa.ipc.new_stream(stream, rows.schema) as writer:
                writer.write_table(rows)
            return ServiceAnswer(stream.getvalue())
        state, now = next(looks)
        driver.extend([now] if now else [])
        return reply({**standing, "state": state, "measured": 0, "failed": 1, "skipped": 0})

    def reply(values: object) -> ServiceAnswer:
        return ServiceAnswer(json.dumps(values).encode())

    client = ServiceClient("http://127.0.0.1:1")
    monkeypatch.setattr(client, "ask", answer)
    monkeypatch.setattr("jobs.service_client.LOOK_SECONDS", 0.0)
    definition = parse_definition({"models": [{"name": "small:net"}]}, "zoo", Path())
    assert run_there(client, definition, TableOptions("json")) == 1
    shown = capfd.readouterr()
    assert "running, 0 of 1 jobs" in shown.err
    assert "6 of 6" not in shown.err
    # As a run on this machine shows them.
    assert "no such weights" in shown.err
    assert json.loads(shown.out) == [{"run_id": "r2"}]


def test_a_survey_whose_watching_is_interrupted_goes_on_there(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    standing = dict.fromkeys(("reason", "measured", "failed", "skipped")) | {"id": 7, "name": "zoo"}

    def answer(method: str, *_: object) -> ServiceAnswer:
        if method == "GET":
            raise KeyboardInterrupt
        return ServiceAnswer(json.dumps({**standing, "state": "queued"}).encode())

    client = ServiceClient("http://127.0.0.1:1")
    monkeypatch.setattr(client, "ask", answer)
    definition = parse_definition({"models": [{"name": "small:net"}]}, "zoo", Path())
    assert run_there(client, definition, TableOptions()) == 130
    assert "survey 7 " in capfd.readouterr().err


def test_a_result_is_that_of_the_home_in_every_format(url: str, home: Home) -> None:
    statement = (
        "SELECT 1.5 AS a, timestamptz '2026-01-01 12:00+00' AS b, MAP {'x': 1} AS c, {'y': 2} AS d,"
        " '\\x00\\xFF'::BLOB AS e, [1, 2] AS f, 1.5::DECIMAL(5, 2) AS g, timestamp 'infinity' AS h"
    )
    result = ServiceClient(url).sql(statement)
    forms: tuple[ResultFormat, ...] = ("table", "json", "csv")
    for form in forms:
        there = BytesIO()
        plain = plain_table(result, form)
        write_batches(plain.schema, plain.to_batches(), form, there)
        assert there.getvalue() == b"".join(SqlQuery(home, statement, form))


def test_what_no_statement_gives_is_no_result() -> None:
    wide = pa.table({"a": pa.array([Decimal(1)], pa.decimal256(60, 2))})
    with pytest.raises(QueryError):
        plain_table(wide, "json")


def test_a_head_has_no_body(url: str) -> None:
    for path in ("/healthz", "/api/v1/jobs", "/"):
        answer = requests.head(url + path, timeout=60)
        assert (answer.status_code, answer.content) == (200, b"")


def test_a_service_that_is_away_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    standing = dict.fromkeys(("reason", "measured", "failed", "skipped")) | {"id": 2, "name": "zoo"}
    answers: list[str | None] = ["running", None, None, "done"]
    client = ServiceClient("http://127.0.0.1:1")

    def answer(*_: object) -> ServiceAnswer:
        if (state := answers.pop(0)) is None:
            raise UnreachableError("away")
        return ServiceAnswer(json.dumps({**standing, "state": state}).encode())

    monkeypatch.setattr(client, "ask", answer)
    monkeypatch.setattr("jobs.service_client.LOOK_SECONDS", 0.0)
    assert [each.state for each in client.until_over(2)] == ["running", "done"]
    answers = [None]
    monkeypatch.setattr("jobs.service_client.PATIENCE_SECONDS", -1.0)
    with pytest.raises(UnreachableError) as caught:
        list(client.until_over(2))
    assert caught.value.exit_code == 3


def test_a_survey_that_waits_shows_why() -> None:
    waiting = SurveyStanding(2, "zoo", "queued", "the folder is not allowed", None, None, None)
    client = ServiceClient("http://127.0.0.1:1")
    assert _line(waiting, client).endswith("queued: the folder is not allowed")
    assert _line(replace(waiting, reason=None), client).endswith("queued")


def test_options_of_the_service_are_refused(tmp_path: Path) -> None:
    options = ServerOptions("http://127.0.0.1")
    assert options.client(RunnerOptions(), Limits(), offline=False) is not None
    for own, settings, flag in (
        ((RunnerOptions(workers=2),), {}, "--workers"),
        ((Limits(split=False),), {}, "--no-split"),
        ((), {"offline": True}, "--offline"),
    ):
        with pytest.raises(SettingsError, match=f"excludes {flag}"):
            options.client(*own, **settings)


def test_the_registry_of_the_environment_is_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(REGISTRY, "postgresql://here@host/survey")
    away = ["run", "-m", "small:digits_vgg7", "--server", "http://127.0.0.1:1"]
    assert CliRunner().invoke(app, away).exit_code == UnreachableError.exit_code
    other = [*away, "--registry", "postgresql://there@host/survey"]
    assert CliRunner().invoke(app, other).exit_code == SettingsError.exit_code


def test_tokens_come_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("secret\n")
    assert ServerOptions().client() is None
    monkeypatch.setenv(TOKEN, "other")
    for file, secret in ((tmp_path / "token", "secret"), (None, "other")):
        client = ServerOptions("http://127.0.0.1", file).client()
        assert client is not None
        made = client._session.prepare_request(requests.Request("GET", "http://127.0.0.1"))
        assert made.headers["Authorization"] == f"Bearer {secret}"
    # Mounted secrets end with a line break.
    monkeypatch.setenv(TOKEN, "other\n")
    client = ServerOptions("http://127.0.0.1").client()
    assert client is not None
    made = client._session.prepare_request(requests.Request("GET", "http://127.0.0.1"))
    assert made.headers["Authorization"] == "Bearer other"
    monkeypatch.setenv(TOKEN, "\N{CHECK MARK}token")
    with pytest.raises(SettingsError):
        ServerOptions("http://127.0.0.1").client()
    (tmp_path / "other").write_text("é")
    for file in (tmp_path / "absent", tmp_path / "other", Path("/dev/zero")):
        with pytest.raises(SettingsError):
            ServerOptions("http://127.0.0.1", file).client()
