"""Pages: what they show, that links lead somewhere, and what is not let in."""

from __future__ import annotations

import ast
import csv
import io
import itertools
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree
from zipfile import ZipFile

import numpy as np
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient

from analysis import signatures
from analysis.answers.relations import MetricCorrelations
from analysis.data.counts import runs_hash
from analysis.data.selection import Selection
from analysis.figures import alignment_rows
from analysis.figures.theme import PALETTE
from analysis.option_fields import address_name, option_fields
from analysis.similarity.distances import distance_matrix
from analysis.similarity.neighbours import neighbours
from analysis.statistics.dtw import dtw
from catalog.home import Home
from catalog.registry.attempts import AttemptEnd, AttemptStart
from catalog.registry.registry import Registry
from catalog.registry.rows import JobEntry
from jobs.operations import watch
from jobs.scan.scan_progress import ScanProgress, WorkerProgress, write_progress
from jobs.service import pages, queries
from jobs.service.api.parameters import MOST_REPEATED
from jobs.service.application import make_application
from jobs.service.pages import analyses
from jobs.service.pages.answers import make
from jobs.service.pages.asked import Asked
from jobs.service.pages.options import option_values, options_in
from jobs.service.pages.questions import KINDS_OF_QUESTIONS, QUESTIONS, with_options
from jobs.service.pages.selections import query_of, selection_of
from jobs.service.pages.sql import _literal
from jobs.service.settings import ServiceSettings
from survey.errors import SettingsError
from tests.analysis.figures.test_theme import EYES, XYZ, lab, linear
from tests.analysis.homes import Builder
from tests.catalog.homes import new_home

RUNS = [f"r{number}" for number in range(4)]


@pytest.fixture(scope="module")
def client(home: Home) -> Iterator[TestClient]:
    rng = np.random.default_rng(0)
    with Builder(home.path) as build:
        for number, run in enumerate(RUNS):
            facts = {"checkpoint": f"file:/srv/secret/w{number}.pth", "family": f"F{number % 2}"}
            facts["dataset"] = f"folder:/srv/secret/{number // 2}"
            scores = rng.random((2, 6 + number)) / 4 + number % 2 / 2
            others = {"cka": scores[:, ::-1]}
            build(run, scores, others, architecture=f"<b>net{number}", year=2012 + number, **facts)
    app = make_application(ServiceSettings(home))
    with TestClient(app, base_url="http://localhost:8765") as client:
        yield client


#: How far a colour moves in dark pages: CSS's invert(.91), then hue-rotate(180deg).
INVERTED = 0.91
TURNED = np.array([[-0.574, 1.43, 0.144], [0.426, 0.43, 0.144], [0.426, 1.43, -0.856]])


def in_the_dark(colour: str, replaced: dict[str, str]) -> str:
    """Return a colour of a figure as a dark page shows it."""
    given = replaced.get(colour, colour)
    light = np.array([int(given[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    shown = np.clip(TURNED @ (light * (1 - 2 * INVERTED) + INVERTED), 0, 1)
    return "#" + "".join(f"{round(each * 255):02x}" for each in shown)


@pytest.mark.parametrize("eye", list(EYES))
def test_every_eye_tells_the_colours_of_dark_figures_apart(eye: str) -> None:
    style = (Path(pages.__file__).parent / "assets" / "service.css").read_text()
    assert f"invert({INVERTED:.2f})".replace("0.", ".") in style
    replaced, outlined = (
        dict(re.findall(rf'\[{kind}="(#\w+)"\] {{ {kind}: (#\w+)', style))
        for kind in ("fill", "stroke")
    )
    assert replaced == outlined
    assert set(replaced) < set(PALETTE)
    paper = XYZ[1] @ linear(in_the_dark("#FFFFFF", replaced)) + 0.05
    shown = [linear(in_the_dark(colour, replaced)) for colour in PALETTE]
    assert min(XYZ[1] @ colour + 0.05 for colour in shown) / paper >= 3
    seen = [lab(np.array(EYES[eye]) @ colour) for colour in shown]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 20


def links(page: str) -> set[str]:
    """Return the addresses that a page links to and loads."""
    return {unescape(each) for each in re.findall(r'(?:href|src)="(/[^"]*)"', page)}


def folder(address: str) -> str:
    """Return the address without its last part."""
    return urlsplit(address).path.rpartition("/")[0]


def test_a_duration_and_a_selection_are_parts_of_what_is_asked(client: TestClient) -> None:
    """A page of the last minutes is another one each minute, and so another one for its reader."""
    etags = [
        client.get(f"/questions/drift?since={each}").headers["etag"]
        for each in ("9d", "2026-01-01")
    ]
    assert [bool(re.search(r"T\d\d:\d\d", etag)) for etag in etags] == [True, False]
    moved = client.get("/questions/clusters?tag=lr%3D0.1", follow_redirects=False)
    assert moved.headers["location"] == "/map?tag=lr%3D0.1"


@pytest.mark.long
def test_every_page_answers_and_every_link_leads_somewhere(client: TestClient) -> None:
    waiting, seen = {"/"}, dict[str, str]()
    while waiting:
        address = waiting.pop()
        response = client.get(address)
        assert response.status_code == 200, address
        seen[address] = response.text
        # Of each kind of page a few: every model links to all files of its figures.
        kinds = set(map(folder, seen))
        new = (
            links(response.text)
            if response.headers["content-type"].startswith("text/html")
            else set()
        )
        waiting |= {
            each
            for each in new - set(seen)
            if not each.startswith("/models/r")
            or urlsplit(each).path.rpartition("/")[0] not in kinds
        }
    assert {f"/questions/{name}" for name, *_ in QUESTIONS if name != "clusters"} <= set(seen)
    assert {"/models", "/compare", "/map", "/scan", "/schedules", "/sql"} <= set(seen)
    for address, page in seen.items():
        # SQL gives what is stored.
        assert "/srv/secret" not in page or address.startswith("/sql/result"), address
        assert "<b>net" not in page or not page.startswith("<!DOCTYPE"), address
        if page.startswith("<!DOCTYPE"):
            assert not re.search(
                r"<script(?![^>]* src=)|<style| style=| on[a-z]+=", page.split("<svg")[0]
            )


def test_pages_of_questions_are_not_about_commands(client: TestClient) -> None:
    assert "exit code" not in client.get("/questions").text
    assert not [each for each in client.get("/api/v1/questions").json()["items"]
                if "exit code" in each["question"]]  # fmt: skip


def test_as_many_barycentres_are_shown_as_the_hierarchy_has_clusters(client: TestClient) -> None:
    def clusters(question: str) -> set[int]:
        rows = client.get(f"/api/v1/questions/{question}").json()["items"]
        return {row["cluster"] for row in rows}

    assert clusters("barycentres") == clusters("clusters")
    assert "<svg" in client.get("/questions/barycentres").text


def form_of(page: str) -> str:
    """Return the form of a page of a question."""
    return page.partition('<form method="get" action="/questions/')[2].partition("</form>")[0]


def test_a_question_is_answered_with_the_options_of_its_form(client: TestClient) -> None:
    address = "/questions/barycentres"
    form = form_of(client.get(f"{address}?family=F0&family=F1").text)
    assert re.findall(r'type="hidden" name="family" value="(\w+)"', form) == ["F0", "F1"]
    names = re.findall(r'id="option-[^"]*" name="(\w+)"', form)
    assert set(names) == {"normalisation", "band", "color_by", "clusters", "seed"}
    # Of fields that were left open a form sends nothing as well.
    sent = {**dict.fromkeys(names, ""), "normalisation": "raw", "clusters": "2"}
    page = client.get(address, params=sent).text
    table = page.partition('id="table-barycentres"')[2].partition("</table>")[0]
    assert len(set(re.findall(r'data-key="(\d\.0)"', table))) == 2
    assert 'name="clusters" aria-describedby="option-clusters-help" value="2"' in form_of(page)
    assert "<option selected>raw</option>" in form_of(page)
    assert "<details open>" not in page
    drawn = {each for each in links(page) if "/barycentres/data/" in each}
    assert drawn
    for each in drawn:
        assert "clusters=2" in each
        assert client.get(each).status_code == 200, each
    refused = client.get(f"{address}?clusters=9").text
    assert 'value="9"' in form_of(refused)
    # Without an answer the form is seen at once.
    assert "<details open>" in refused
    assert client.get("/map?clusters=2").status_code == 400


def test_a_refused_question_keeps_what_its_form_held(client: TestClient) -> None:
    given = {"family": "F0", "normalisation": "raw", "clusters": "0", "no_such": "1"}
    refused = client.get("/questions/barycentres", params=given)
    assert refused.status_code == 400
    form = form_of(refused.text)
    assert re.findall(r'type="hidden" name="(\w+)" value="(\w+)"', form) == [("family", "F0")]
    assert "<option selected>raw</option>" in form
    assert 'name="clusters" aria-describedby="option-clusters-help" value="0"' in form
    assert "<details open>" in refused.text
    assert client.get("/questions/no_such").status_code == 404
    # What the form cannot mend is not sent again.
    refused = client.get("/questions/barycentres?untrained=maybe&clusters=2")
    assert 'type="hidden"' not in form_of(refused.text)
    assert 'value="2"' in form_of(refused.text)


@pytest.mark.parametrize("rows", [499, 500, 501])
def test_a_page_of_sql_says_where_rows_are_left_out(client: TestClient, rows: int) -> None:
    page = client.get("/sql", params={"query": f"SELECT * FROM range({rows})"}).text
    assert ("The first 500 rows" in page) == (rows > 500)
    assert page.count("<tr>") >= min(rows, 500)


@pytest.mark.parametrize("question", [name for name, *_ in QUESTIONS if with_options(name)])
def test_every_question_alone_on_its_page_offers_its_options(
    client: TestClient, question: str
) -> None:
    form = form_of(client.get(f"/questions/{question}").text)
    (answer,) = KINDS_OF_QUESTIONS[question]
    # Two runs in order are no field.
    names = {address_name(each) for each in option_fields(answer) if each.name != "pair"}
    assert set(re.findall(r'id="option-[^"]*" name="(\w+)"', form)) == names


def test_an_option_may_be_given_several_times(client: TestClient) -> None:
    page = client.get("/questions/correlations", params={"metric": ["cka", "norm"]}).text
    assert re.findall(r'name="metric"[^>]* value="(\w*)"', form_of(page)) == ["cka", "norm", ""]
    given = options_in("metric=cka&metric=norm&level=all", MetricCorrelations)
    assert option_values(MetricCorrelations, given) == {"metrics": ["cka", "norm"], "level": "all"}
    many = tuple(("metric", f"m{number}") for number in range(MOST_REPEATED))
    assert len(option_values(MetricCorrelations, many)["metrics"]) == MOST_REPEATED
    with pytest.raises(SettingsError):
        option_values(MetricCorrelations, (*many, ("metric", "one more")))
    refused = client.get("/questions/correlations", params=(*many, ("metric", "one more")))
    assert refused.status_code == 400


def test_addresses_give_a_selection_back() -> None:
    selection = Selection(models=("a*", "b&c"), tags="epoch>=30", untrained=True)
    assert selection_of(query_of(selection)) == selection
    assert selection_of("model=a&model=a&untrained=0") == Selection(models="a")
    assert query_of(Selection()) == ""
    many = "&".join(f"family=f{number}" for number in range(MOST_REPEATED))
    assert len(selection_of(many).families or ()) == MOST_REPEATED
    for wrong in (f"{many}&family=more", "untrained=maybe"):
        with pytest.raises(SettingsError):
            selection_of(wrong)


def test_addresses_that_mean_the_same_have_the_same_page() -> None:
    (answer,) = KINDS_OF_QUESTIONS["barycentres"]
    one = options_in("clusters=2", answer)
    assert one == (("clusters", "2"),)
    assert options_in("seed=0&clusters=7&normalisation=relative&clusters=2", answer) == one
    # No default is a text.
    assert options_in("color_by=None", answer) == (("color_by", "None"),)


def test_a_comparison_offers_the_rows_that_it_draws(client: TestClient, home: Home) -> None:
    query = {"run": RUNS[:3]}
    page = client.get("/compare", params=query).text
    (address,) = (each for each in links(page) if "/data/affinity.csv" in each)
    rows = list(csv.DictReader(io.StringIO(client.get(address).text)))
    stored = signatures(home.path).query("run_id in @RUNS[:3]")
    assert len(rows) == len(stored)
    given = {(row["run_id"], int(row["site"])): float(row["affinity"]) for row in rows}
    for row in stored.itertuples():
        assert given[row.run_id, row.site] == pytest.approx(row.affinity)
    table = pq.read_table(io.BytesIO(client.get(address.replace(".csv", ".parquet")).content))
    assert table.num_rows == len(rows)


def test_a_run_without_a_score_is_not_compared(tmp_path: Path) -> None:
    with Builder(tmp_path / "home") as build:
        build("r0", [0.5, 0.25])
        build("r1", [], status="failed", architecture="other")
    app = make_application(ServiceSettings(Home(tmp_path / "home")))
    with TestClient(app, base_url="http://localhost:8765") as client:
        assert client.get("/compare?run=r0&run=r1").status_code == 400
        assert client.get("/compare?run=r0&run=r2").status_code == 404


def test_failed_jobs_are_shown_without_a_look_at_all_jobs_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    with Registry(home := new_home(tmp_path / "home")) as registry:
        entries = [JobEntry(f"k{n}", f"run{n}", "net", "small", "a", "d", {}) for n in range(9)]
        registry.add_jobs(registry.record_survey("s", {}), entries)
        numbers = registry.attempts.start([AttemptStart(each.key) for each in entries])
        registry.attempts.finish(
            [
                AttemptEnd(each.key, number, "failed", "failed", traceback=f"why {each.run_id}")
                for each, number in zip(entries, numbers, strict=True)
            ]
        )
    original = Registry.jobs
    monkeypatch.setattr(Registry, "jobs", lambda *given: reads.append(given) or original(*given))
    app = make_application(ServiceSettings(home))
    with TestClient(app, base_url="http://localhost:8765") as client:
        page = client.get("/scan").text
    shown = re.findall(r'id="traceback-(run\d)".*?<code>why (run\d)<', page)
    assert sorted(shown) == [(each.run_id, each.run_id) for each in entries]
    assert len(reads) <= 1


def test_files_for_others_hold_no_folder_of_the_server(client: TestClient, home: Home) -> None:
    offered = {
        each
        for name in ("datasets", "depth", "distributions", "neighbours")
        for each in links(client.get(f"/questions/{name}").text)
        if ".parquet" in each
    }
    assert len(offered) > 1
    for each in offered:
        assert str(home.path).encode() not in client.get(each).content, each
    with ZipFile(io.BytesIO(client.get("/api/v1/report.zip").content)) as report:
        for name in report.namelist():
            assert b"/srv/secret" not in report.read(name), name


@pytest.mark.parametrize("metric", ["affinity", "cka"])
def test_an_alignment_is_the_one_of_the_distance(
    client: TestClient, home: Home, metric: str
) -> None:
    pair = signatures(home.path).query("run_id in @RUNS[:2]")
    path = alignment_rows(pair, metric)
    curves = [group[metric].to_numpy() for _, group in pair.groupby("run_id", sort=False)]
    squares = (path[metric] - path[f"other_{metric}"]) ** 2
    assert np.sqrt(squares.sum()) == pytest.approx(dtw(*curves))
    steps = path[["site", "other_site"]].diff().dropna()
    assert steps.isin([0, 1]).all().all()
    page = client.get("/compare", params={"run": RUNS[:2], "metric": metric}).text
    (address,) = (each for each in links(page) if "/data/alignment.csv" in each)
    drawn = list(csv.DictReader(io.StringIO(client.get(address).text)))
    assert [float(row[metric]) for row in drawn] == pytest.approx(path[metric].tolist())


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/models/nothing", 404),
        ("/questions/nothing", 404),
        ("/compare?run=r0", 400),
        ("/compare?run=r0&run=nothing", 404),
        ("/compare?run=r0&run=r1&metric=nothing", 404),
        ("/?model=nothing", 400),
        ("/?famly=F1", 400),
        ("/assets/../settings.py", 404),
        ("/assets/vendor/htmx/LICENSE", 404),
        ("/map/data/../../x.csv", 404),
        ("/sql?query=SELECT+1;+SELECT+2", 400),
        ("/sql?query=SELECT+*+FROM+'/etc/passwd'", 400),
    ],
)
def test_a_problem_is_a_page(client: TestClient, address: str, status: int) -> None:
    response = client.get(address)
    assert response.status_code == status
    if not address.startswith("/assets") and "/.." not in address:
        assert response.headers["content-type"].startswith("text/html")


def test_a_page_that_is_as_it_was_is_not_sent_again(client: TestClient) -> None:
    first = client.get("/compare", params={"run": RUNS[:3]})
    tag = {"If-None-Match": first.headers["etag"]}
    assert client.get("/compare", params={"run": RUNS[:3]}, headers=tag).status_code == 304


@pytest.mark.parametrize("address", ["/questions/drift", "/models/r0", "/compare?run=r0&run=r1"])
def test_another_program_makes_other_pages(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    kept = {"If-None-Match": client.get(address).headers["etag"]}
    assert client.get(address, headers=kept).status_code == 304
    monkeypatch.setattr(analyses, "__version__", "other")
    assert client.get(address, headers=kept).status_code == 200


def test_forms_need_the_token_of_their_page(client: TestClient) -> None:
    form = {"models": "small:digits_vgg7", "images_per_score": "128"}
    assert client.post("/scan/surveys", data=form).status_code == 403
    page = client.get("/scan").text
    field = re.search(r'name="form_token" value="(\w+)"', page)
    assert field is not None
    sent = client.post(
        "/scan/surveys", data={**form, "form_token": field[1]}, follow_redirects=False
    )
    assert (sent.status_code, sent.headers["location"]) == (303, "/scan")
    (listed,) = client.get("/api/v1/surveys").json()["items"]
    submitted = client.get(f"/api/v1/surveys/{listed['id']}").json()
    assert submitted["definition"]["models"][0]["name"] == "small:digits_vgg7"
    assert submitted["state"] == "queued"
    address = f"/scan/surveys/{submitted['id']}/cancel"
    assert client.post(address, data={"form_token": field[1]}).status_code == 200
    assert client.get("/api/v1/surveys").json()["items"][0]["state"] == "cancelled"


def test_a_schedule_is_added_paused_and_removed_by_forms(client: TestClient) -> None:
    field = re.search(r'name="form_token" value="(\w+)"', client.get("/schedules").text)
    assert field is not None
    token = {"form_token": field[1]}
    new = {"name": "week ly", "cron": "@weekly", "models": "small:digits_vgg7", **token}
    assert client.post("/schedules", data=new).status_code == 200
    assert client.post("/schedules", data={**new, "cron": "never"}).status_code == 400
    assert client.post("/schedules", data={**new, "name": "a/b"}).status_code == 400
    (schedule,) = client.get("/api/v1/schedules").json()["items"]
    assert (schedule["name"], schedule["cron"]) == ("week ly", "0 0 * * 0")
    assert schedule["next_due"][0][:16].replace("T", " ") + " UTC" in client.get("/schedules").text
    assert client.post("/schedules/week%20ly/pause", data=token).status_code == 200
    assert client.get("/api/v1/schedules").json()["items"][0]["paused_at"] is not None
    assert client.post("/schedules/week%20ly/remove", data=token).status_code == 200
    assert client.get("/api/v1/schedules").json()["items"] == []


@pytest.mark.parametrize(
    ("address", "sent", "status", "hint"),
    [
        ("/schedules", {"name": "n", "cron": "61 3 * * 1", "models": "small:x"}, 400, ""),
        ("/schedules", {"name": "n" * 201, "cron": "@daily", "timezone": "Asia/Tokyo"}, 422, ""),
        ("/schedules", {"name": "no cron", "survey": "a = 1"}, 422, ""),
        ("/scan/surveys", {"models": "small:digits_vggg <b>"}, 422, "digits_vgg7"),
        ("/scan/surveys", {"survey": 'models =\n"', "images_per_score": "7"}, 400, "survey-file"),
        ("/scan/surveys", {"checkpoints": "init:0"}, 400, "small:digits_*"),
    ],
)
def test_a_refused_form_is_still_filled_in(
    client: TestClient, address: str, sent: dict[str, str], status: int, hint: str
) -> None:
    field = re.search(r'name="form_token" value="(\w+)"', client.get("/scan").text)
    assert field is not None
    answer = client.post(address, data={**sent, "form_token": field[1]})
    assert answer.status_code == status
    problem, _, form = answer.text.partition("autofocus")[2].partition("<form")
    assert hint in problem
    texts = re.findall(r'<input id="[^"]*" name="(\w+)" value="([^"]*)"', form)
    texts += re.findall(r'<textarea [^>]*name="(\w+)"[^>]*>([^<]*)<', form)
    filled = {name: unescape(text) for name, text in texts if text}
    assert filled == ({"timezone": "UTC", **sent} if address == "/schedules" else sent)
    # Whoever loads the address again comes to the page.
    assert client.get(address).status_code == 200


def test_a_query_shows_its_rows_and_gives_them_as_files(client: TestClient) -> None:
    query = "SELECT run_id, count(*) AS n FROM signatures GROUP BY ALL ORDER BY ALL"
    page = client.get("/sql", params={"query": query, "x": "run_id", "y": "n"}).text
    assert page.count("<tr>") == 1 + len(RUNS)
    assert "<svg" in page
    rows = client.get("/sql/result.csv", params={"query": query}).text.splitlines()
    assert rows[1:] == [f'"{run}",{6 + place}' for place, run in enumerate(RUNS)]


def test_the_form_of_queries_needs_no_room_for_a_result(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "MOST_QUERIES", 0)
    assert client.get("/sql").status_code == 200
    assert client.get("/sql?query=SELECT+1").status_code == 503


@pytest.mark.parametrize("query", ["SELECT 1\nAS a", '1 -- """); a = 1 #', "'\\'", 'AS "a"'])
def test_a_copied_cell_runs_the_query_alone(query: str) -> None:
    assert ast.literal_eval(_literal(query)) == query


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of one network and two checkpoints, of which one was measured again."""
    path = tmp_path_factory.mktemp("repeated") / "home"
    with Builder(path) as build:
        for run, checkpoint, version in (("a0", "w0", 2), ("a1", "w0", 3), ("b0", "w1", 2)):
            build(run, [[0.25, 0.5]], checkpoint=checkpoint, measuring_version=version)
    return path


def test_a_model_shows_every_run_and_each_value(repeated: Path) -> None:
    # `a0` was measured again since: it has a page all the same.
    app = make_application(ServiceSettings(Home(repeated)))
    with TestClient(app, base_url="http://localhost:8765") as client:
        assert "/models/a0/runs" in links(client.get("/models/a0").text)
        runs = client.get("/models/a0/runs").text
        table = runs.partition('id="table-runs"')[2].partition("</table>")[0]
        assert re.findall(r'href="/models/(\w+)"', table) == ["b0", "a1", "a0"]
        assert "b0" in client.get("/models/a0/runs/data/checkpoints.csv").text
        drawing = client.get("/models/a0/signature").text
    titles = re.findall(r"<title>[^<]*affinity: ([0-9.]+)</title>", drawing)
    assert set(titles) == {"0.25", "0.5"}


def test_the_foot_of_a_page_names_the_runs_of_its_answer(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with Builder(tmp_path) as build:
        for name, checkpoint in (("a", "published"), ("b", "published"), ("a", "init:0")):
            run = f"{name}-{checkpoint}"
            build(run, rng.random((2, 6)), architecture=name, checkpoint=checkpoint, year=2015)
    page = make(Asked(tmp_path, "", "question", name="timeline")).html
    # A page of one year has its figure too.
    assert page.count("<svg") > 0
    assert runs_hash(["a-published", "b-published"]) in page
    assert runs_hash(["a-published", "b-published", "a-init:0"]) not in page


def test_the_overview_counts_what_is_stale(repeated: Path) -> None:
    page = make(Asked(repeated, "", "overview")).html
    counts = dict(re.findall(r"<dt>(measured|failed|stale)[^<]*</dt><dd>(\d+)</dd>", page))
    assert counts == {"measured": "2", "failed": "0", "stale": "1"}


@pytest.mark.slow(seconds=30)
def test_a_page_of_many_models_holds_no_large_drawing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with Builder(tmp_path / "home") as build:
        for number in range(250):
            facts = {"family": f"F{number % 5}", "dataset": f"d{number % 2}"}
            build(f"r{number:03}", rng.random((2, 12)), architecture=f"net{number // 2}", **facts)
    large = small = 0
    for name in ("clusters", "checkpoints", "distributions", "neighbours", "datasets"):
        made = make(Asked(tmp_path / "home", "", "question", name=name))
        assert len(made.html.encode()) < 300_000, name
        for address in re.findall('<img src="([^"?]*)', made.html):
            ElementTree.fromstring(made.files["figures/" + address.rpartition("/figures/")[2]])
            large += 1
        small += made.html.count("<svg")
    assert large
    assert small


def test_the_overview_leads_to_the_scan_until_a_run_has_ended(tmp_path: Path) -> None:
    with Builder(tmp_path / "home") as build:
        build("r1", [[0.5, 0.6]], status="running", finished_at=None)
    latest = make(Asked(tmp_path / "home", "", "overview")).html.partition('id="latest"')[2]
    assert ("<li>" in latest, '<a href="/scan">' in latest) == (False, True)


def test_each_job_under_way_has_a_bar_and_so_has_each_of_its_workers(
    client: TestClient, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    working = (
        WorkerProgress("host", 7, "cpu", "r1", "one", 32, 64, 24),
        WorkerProgress("host", 8, "cpu"),
        WorkerProgress("host", 9, "cpu", "r1", "one", 32, 64, 8),
        WorkerProgress("host", 6, "cpu", "r0", "other", 0, 64),
    )
    going = ScanProgress("1 on host", 1.0, jobs=4, measured_before=1, workers=4, working=working)
    write_progress(home.progress, going)
    monkeypatch.setattr(watch, "is_writing", lambda *_: True)
    page = client.get("/scan").text
    home.progress.unlink()
    bars = re.findall(r'<progress max="64" value="(\d+)" aria-label="([\w ]+)">', page)
    of_one = [("32", "one"), ("24", "7 on host"), ("8", "9 on host")]
    assert bars == [*of_one, ("0", "other"), ("0", "6 on host")]
    assert re.findall(r"<div>(\d) on host", page) == ["7", "9", "8", "6"]


def test_the_page_of_the_scan_says_which_scan_has_ended(client: TestClient, home: Home) -> None:
    over = ScanProgress("1 on host", 1.0, jobs=1, measured_before=0, ended_at=1e9, end="done")
    write_progress(home.progress, over)
    lead = client.get("/scan").text.partition('class="lead"')[2].partition("</p>")[0]
    home.progress.unlink()
    assert "2001-09-09 01:46 UTC" in lead


def test_an_address_fills_the_form_of_a_survey(client: TestClient) -> None:
    page = client.get("/scan", params={"models": 'small:digits_*"', "images_per_score": "64"}).text
    assert 'name="models" value="small:digits_*&#34;"' in page
    assert 'name="images_per_score" value="64"' in page


def test_a_refused_query_stays_in_its_field(client: TestClient) -> None:
    answer = client.get("/sql", params={"query": "SELECT afinity\nFROM signatures"})
    field = re.search(r'<textarea id="query"[^>]*>([^<]*)<', answer.text)
    assert field is not None
    assert (answer.status_code, field[1]) == (400, "SELECT afinity\nFROM signatures")
    assert '<pre class="problem"' in answer.text
    assert "affinity" in answer.text


def test_a_query_is_kept_by_name_until_it_is_removed(client: TestClient) -> None:
    token = re.search(r'name="form_token" value="(\w+)"', client.get("/scan").text)
    assert token is not None
    query = "SELECT 1 AS one\r\nWHERE '<b>' <> ''"
    form = {"form_token": token[1], "name": "one <i>/2", "query": query}
    assert client.post("/sql/saved", data=form).status_code == 422
    form["name"] = "one & <i>two"
    assert client.post("/sql/saved", data={**form, "form_token": "0"}).status_code == 403
    assert 'class="number" data-key="1.0"' in client.post("/sql/saved", data=form).text
    page = client.get("/sql").text
    assert "<i>" not in page
    (address,) = (each for each in links(page) if "one" in each)
    assert 'value="one &amp; &lt;i&gt;two"' in client.get(address).text
    (remove,) = re.findall(r'action="(/sql/saved/[^"]*)"', page)
    assert unescape(remove) not in client.post(unescape(remove), data=form).text


def test_a_query_that_is_kept_keeps_its_drawing(client: TestClient) -> None:
    asked = {"query": "SELECT 1 AS a, 2 AS b", "x": "a", "y": "b"}
    page = client.get("/sql", params=asked).text.partition('action="/sql/saved"')[2]
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page))
    kept = client.post("/sql/saved", data={**fields, "name": "drawn"})
    assert dict(kept.url.params) == asked
    assert "<svg" in kept.text


def test_a_model_page_is_about_its_run_alone(client: TestClient, home: Home) -> None:
    page = client.get("/models/r2").text
    stored = signatures(home.path).query("run_id == 'r2'")
    assert page.count('scope="row"') == len(stored)
    assert unescape(stored["model"].iloc[0]) in unescape(page)
    assert {f"/models/r2/{part}" for part in ("signature", "nearest", "runs")} <= links(page)
    assert client.get("/models/r").status_code == 404


def test_the_nearest_models_are_those_of_all_distances(client: TestClient, home: Home) -> None:
    expected = neighbours(distance_matrix(signatures(home.path), cache=False), "r1", 5)
    page = client.get("/models/r1/nearest").text
    near = re.findall(r'href="/models/(r\d)"[^>]*>', page.split('id="nearest"')[1])
    assert near == list(expected["other_run_id"])


def test_a_signature_has_its_figure_and_rows(client: TestClient) -> None:
    page = client.get("/models/r1/signature").text
    assert "<svg" in page
    (address,) = (each for each in links(page) if each.endswith(".csv"))
    assert len(client.get(address).text.splitlines()) == 1 + 7
