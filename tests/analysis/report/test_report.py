"""The report: whole or not at all, safe with any name, and every number leads back to the store."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import duckdb
import numpy as np
import pandas as pd
import pytest
import vl_convert

from analysis.answers.clusters import STABILITY_DRAWS, ClusterStability
from analysis.answers.columns import Table, TableColumn
from analysis.answers.material import Material
from analysis.answers.trend import AffinityByDepth
from analysis.data.selection import Selection
from analysis.relations.accuracy_spread import accuracy_spread, chance_sentences
from analysis.report import Report, folder, page_drawings, write_report
from analysis.report.data import ReportMaterial, slug
from analysis.report.data import statement as sql_of
from analysis.report.elements import page_table, table_of
from analysis.report.folder import MARKER, report_folder, require_free
from analysis.report.inline_svg import embedded
from analysis.report.pages import survey_facts
from analysis.report.standalone_svg import Words, framed
from analysis.text import NOTHING, cell, fixed, missing, probability
from catalog.open_home import open_home
from catalog.store.reader import query
from catalog.store.records import BatchRecord
from catalog.store.writer import Writer
from survey.errors import SettingsError, SurveyError
from survey.results import BatchScores
from tests.analysis.homes import Builder
from tests.catalog.homes import new_home
from tests.catalog.records import run, score

pytestmark = pytest.mark.slow(seconds=25)

#: A checkpoint that anybody may call a file of weights.
HOSTILE = 'file:</title><script>alert("x")</script>&amp;\'\x1b[31m\u202e\n\x00.pth'

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def store(home: Path, run_id: str, scores: list[list[float | None]], **values: object) -> None:
    """Store a finished run: scores by site, one a batch; None is a batch without a score."""
    basics = {"finished_at": NOON, "images": 128, "batches": 2, "sites": len(scores)}
    basics |= {"pooling": "mean"}
    record = run(run_id, **{"status": "done", **basics, **values})
    with Writer.open(open_home(home, create=False)) as writer:
        for number in range(len(scores[0]) if scores else 0):
            rows = []
            for site, batches in enumerate(scores):
                value = batches[number]
                numbers = dict.fromkeys(("cka", "norm", "r2"), (value or 0) * (site + 1) % 1)
                row = score(number, site, value or 0.0, repeat=1 + site % 2, **numbers)
                if value is None:
                    reason = "the output is <the> same"
                    row = dataclasses.replace(row, affinity=None, status="constant", reason=reason)
                rows.append(row)
            writer.write(
                batches=[
                    BatchRecord(run_id, 1, BatchScores(number, 64, tuple(rows), 64, 1, 1, 1.0), 64)
                ]
            )
        writer.write([record])


def curve(seed: int, sites: int, level: float) -> list[list[float | None]]:
    rng = np.random.default_rng(seed)
    means = np.clip(level + rng.normal(0, 0.08, sites), 0, 1)
    return [[float(mean), float(min(1, mean + 0.01))] for mean in means]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six networks of two families, one of them with a hostile name; one failed, one unscored."""
    place = tmp_path_factory.mktemp("report") / "home"
    new_home(place)
    for number, (name, family, year, level) in enumerate(
        [
            ("digits_resnet14", "ResNet", 2015, 0.9),
            ("digits_resnet20", "ResNet", 2015, 0.92),
            ("digits_resnet26", "ResNet", 2016, 0.95),
            ("digits_plain14", "VGG", 2014, 0.6),
            ("digits_plain20", "VGG", 2014, 0.65),
        ]
    ):
        store(
            place, f"r{number}", curve(number, 7 + number, level), architecture=name, family=family,
            family_group="small", year=year, measured_top1=0.9 + number / 100, gflops=0.1 * number,
            parameters=10 * number, depth=14 + number, settings='{"pooling": "mean"}',
        )  # fmt: skip
    gaps = curve(9, 7, 0.8)
    gaps[3] = [None, None]
    store(place, "r5", gaps, architecture="digits_resnet14", family="ResNet", checkpoint=HOSTILE)
    store(place, "r6", [[None, None]] * 3, architecture="mute", family="VGG")
    store(
        place, "r7", [], status="failed", architecture="broken", stage="load",
        error="<b>the file</b> & more", sites=None,
    )  # fmt: skip
    return place


@pytest.fixture(scope="module")
def written(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Report:
    return write_report(home, tmp_path_factory.mktemp("out") / "report", title="Nets & <friends>")


class Page(HTMLParser):
    """What the tests ask of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def values(self, name: str) -> list[str]:
        return [attrs[name] or "" for _, attrs in self.tags if name in attrs]

    def count(self, tag: str) -> int:
        return sum(1 for name, _ in self.tags if name == tag)


def pages(report: Report) -> Iterator[tuple[Path, Page]]:
    for path in sorted(report.folder.rglob("*.html")):
        yield path, Page(path)


@pytest.mark.parametrize("page", ["correlations", "residual", "distributions"])
def test_a_page_with_tests_names_their_unit_of_replication(written: Report, page: str) -> None:
    assert "Unit of replication: the " in (written.folder / f"{page}.html").read_text("utf-8")


def test_every_page_is_there_and_every_link_leads_somewhere(written: Report) -> None:
    by_path = dict(pages(written))
    assert len(by_path) == written.pages
    assert len(list((written.folder / "models").iterdir())) == written.runs == 8
    for path, page in by_path.items():
        for address in (*page.values("href"), *page.values("src")):
            if address.startswith("#"):
                assert address[1:] in page.values("id"), (path, address)
            # An icon of nothing, for which no browser asks a server.
            elif address != "data:,":
                assert (path.parent / address).resolve().is_file(), (path, address)


def test_a_page_is_one_that_any_reader_can_use(written: Report) -> None:
    for path, page in pages(written):
        ids = page.values("id")
        assert len(ids) == len(set(ids)), path
        assert page.count("h1") == page.count("main") == page.count("header") == 1, path
        assert ("html", {"lang": "en"}) in page.tags
        assert page.count("caption") == page.count("table"), path
        drawings = [attrs for tag, attrs in page.tags if tag == "svg"]
        assert all(each["role"] == "img" and each["aria-label"] for each in drawings), path
        assert all(attrs.get("scope") for tag, attrs in page.tags if tag == "th"), path


def test_a_page_asks_no_network(written: Report) -> None:
    for path in written.folder.rglob("*"):
        if path.suffix in {".html", ".css", ".js"}:
            text = path.read_text(encoding="utf-8").replace("http://www.w3.org/", "")
            assert "http:" not in text, path
            assert "https:" not in text, path
    page = Page(written.index)
    (policy,) = [a["content"] for _, a in page.tags if a.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert not [attrs for _, attrs in page.tags if "style" in attrs]


def test_names_are_text_wherever_they_stand(written: Report) -> None:
    hostile = "</title><script>"
    seen = 0
    for path, page in pages(written):
        assert [attrs for tag, attrs in page.tags if tag == "script"] == [
            {"defer": None, "src": f"{'../' * (path.parent.name == 'models')}assets/report.js"}
        ], path
        seen += hostile in "".join(page.text)
    assert seen > 3
    broken = next(page for path, page in pages(written) if path.name.startswith("broken"))
    assert "<b>the file</b> & more" in "".join(broken.text)
    assert broken.count("b") == 0
    assert Page(written.index).text.count("Nets & <friends>") >= 2
    for path in (written.folder / "figures").iterdir():
        assert not [e for e in Xml.parse(path).iter() if e.tag.endswith("script")]


def test_no_file_holds_what_a_reader_cannot_see(written: Report) -> None:
    for path in written.folder.rglob("*.*"):
        if path.suffix in (".html", ".svg", ".csv", ".sql"):
            text = path.read_bytes().decode()
            hidden = {each for each in text if not each.isprintable()}
            assert hidden <= {"\n", "\N{NO-BREAK SPACE}"}, path


def test_a_figure_that_cannot_be_drawn_is_named_and_the_rest_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    new_home(home)
    store(home, "r0", curve(0, 5, 0.5))
    draw, drawn = vl_convert.vega_to_svg, []

    def failing(spec: Any) -> str:
        drawn.append(spec)
        if len(drawn) == 1:
            raise ValueError("no such shape")
        return str(draw(spec))

    monkeypatch.setattr(vl_convert, "vega_to_svg", failing)
    report = write_report(home, tmp_path / "report")
    ((name, reason),) = report.undrawn
    assert "no such shape" in reason
    page = report.folder / f"{name}.html"
    assert f"No drawing of {name}" in page.read_text(encoding="utf-8")
    assert len(drawn) > 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "report"]


def test_sql_gives_the_rows_beside_it(home: Path, written: Report) -> None:
    opened = open_home(home, create=False)
    statements = sorted((written.folder / "data").glob("*.sql"))
    assert len(statements) >= 8
    for statement in statements:
        rows = query(opened, statement.read_text(encoding="utf-8")).to_pandas()
        assert len(rows), statement
        if statement.name.startswith("signature-"):
            data = pd.read_csv(statement.with_suffix(".csv"))
            pd.testing.assert_frame_equal(rows, data, check_dtype=False, rtol=0, atol=1e-12)


def test_a_statement_gives_what_the_page_says_of_accuracies(home: Path, written: Report) -> None:
    statement = (written.folder / "data" / "regressions.sql").read_text(encoding="utf-8")
    rows = query(open_home(home, create=False), statement).to_pandas()
    (clause,) = chance_sentences(accuracy_spread(rows))
    (page,) = [page for path, page in pages(written) if path.stem == "regressions"]
    assert clause in "".join(page.text)


def test_a_statement_may_name_columns_as_words_of_sql() -> None:
    scores = ("affinity", "affinity_std", "affinity_se", "affinity_plain")
    columns = 'run_id VARCHAR, architecture VARCHAR, site INTEGER, "all" DOUBLE, flags VARCHAR[]'
    columns += "".join(f", {name} DOUBLE" for name in scores)
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE signatures ({columns})")
        values = "'r1', 'net', 0, 0.5"
        connection.execute(
            f'INSERT INTO signatures (run_id, architecture, site, "all") VALUES ({values})'
        )
        assert connection.execute(sql_of(["r1"], ("site", "all"))).fetchall() == [(0, 0.5)]


def test_every_figure_has_its_data_and_its_statement(written: Report) -> None:
    drawn = {path.stem for path in (written.folder / "figures").iterdir()}
    for ending in ("csv", "sql"):
        assert {path.stem for path in (written.folder / "data").glob(f"*.{ending}")} == drawn
    models = [stem for stem in drawn if stem.startswith("signature-")]
    # The failed run and the one without any score have none.
    assert len(models) == 6
    assert {"signatures", "dendrogram", "timeline", "correlations"} <= drawn


def test_a_model_page_tells_what_is_wrong(written: Report) -> None:
    texts = {path.name: "".join(page.text) for path, page in pages(written)}
    (mute,) = [text for name, text in texts.items() if name.startswith("mute")]
    assert "3 of 3 sites without a score: the output is <the> same" in mute
    (gap,) = [text for name, text in texts.items() if name.endswith("-r5.html")]
    assert "1 of 7 sites without a score" in gap
    assert "Failed (load)" in next(t for n, t in texts.items() if n.startswith("broken"))
    assert "1 run failed" in texts["index.html"]
    assert texts["missing.html"].count("the output is <the> same") == 4


def test_the_page_of_clusters_has_the_number_of_draws(written: Report) -> None:
    (text,) = ["".join(page.text) for path, page in pages(written) if path.stem == "clusters"]
    assert f"{STABILITY_DRAWS} draws" in text


def test_one_batch_says_nothing_of_stability(tmp_path: Path) -> None:
    new_home(tmp_path)
    for number in range(3):
        scores = [batches[:1] for batches in curve(number, 5, 0.5)]
        store(tmp_path, f"r{number}", scores, architecture=f"net{number}", family="F")
    assert ClusterStability(Material(tmp_path)).rows["stability"].isna().all()


def test_a_caption_leads_back_to_the_runs(written: Report) -> None:
    from analysis.data.counts import runs_hash

    marker = json.loads((written.folder / MARKER).read_text(encoding="utf-8"))
    assert marker["runs_hash"] == runs_hash([f"r{number}" for number in range(8)])
    for _, page in pages(written):
        assert marker["runs_hash"] in "".join(page.text)
    (one,) = written.folder.glob("models/digits-plain20-*.html")
    assert "all models, model digits_plain20; 1 run" in "".join(Page(one).text)


@pytest.mark.long
def test_the_same_runs_give_the_same_files(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_drawings, "PROCESS_PAGES", 1)
    chosen = Selection(models=("digits_plain*",))
    reports = (write_report(home, tmp_path / str(n), chosen, processes=n) for n in (1, 2, 3))
    one, *others = (files_of(report.folder) for report in reports)
    for each in others:
        assert each == one


def files_of(folder: Path) -> dict[str, bytes]:
    """Return what the files of a folder hold."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*")}


def test_a_killed_process_ends_the_report_and_leaves_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_drawings, "PROCESS_PAGES", 1)

    def killing(_: str, items: list[Any]) -> Iterator[Any]:
        for child in multiprocessing.active_children():
            child.kill()
        yield from items

    with pytest.raises(SurveyError):
        write_report(home, tmp_path / "report", watch=killing, processes=2)
    assert not list(tmp_path.iterdir())


def test_what_the_data_do_not_allow_is_said(home: Path, tmp_path: Path) -> None:
    alone = write_report(home, tmp_path / "one", Selection(models=("digits_plain14",)))
    reasons = dict(alone.absent)
    assert {"Clusters", "Regressions", "Datasets", "Training"} <= set(reasons)
    assert all(reasons.values())
    text = "".join(Page(alone.index).text)
    assert all(reason in text for reason in reasons.values())
    assert not (alone.folder / "clusters.html").exists()
    none = write_report(home, tmp_path / "none", Selection(models=("mute", "broken")))
    assert {reason for _, reason in none.absent} == {"No run of the selection has a score."}
    assert "no run of this selection has a score" in "".join(Page(none.index).text)


def test_families_whose_names_a_file_cannot_tell_apart_have_a_figure_each(tmp_path: Path) -> None:
    new_home(tmp_path)
    for number, family in enumerate(("A <b>", "A <b>", "A b!", "A b!")):
        scores = curve(number, 4 + number, 0.5)
        store(tmp_path, f"{number}" * 12, scores, architecture=f"net{number}", family=family)
    names = {slug(each.name) for each in AffinityByDepth(Material(tmp_path)).drawings()}
    assert len(names) == 2


def test_runs_that_do_not_compare_are_told_and_pages_counted_as_they_are_made(
    tmp_path: Path,
) -> None:
    make = Builder(tmp_path / "home")
    make("many", [0.4, 0.5, 0.6])
    make("few", [0.4, 0.5, 0.6], architecture="vgg7", images_per_score=32)
    seen: list[int] = []

    def watch(_what: str, items: Any) -> Any:
        for number, item in enumerate(items):
            seen.append(number)
            yield item

    written = write_report(tmp_path / "home", tmp_path / "out", watch=watch)
    assert seen == [0, 1]
    assert written.conditions == (
        "32 images a score, ridge absolute",
        "64 images a score, ridge absolute",
    )
    for page in ("index.html", "clusters.html"):
        assert "Mixed settings: images_per_score 32 and 64" in "".join(
            Page(written.folder / page).text
        )


def test_a_report_is_replaced_whole(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    out.mkdir()
    first = write_report(home, out, Selection(models=("mute", "broken")))
    assert len(list((out / "models").iterdir())) == first.runs == 2
    write_report(home, out, Selection(models=("mute",)))
    assert len(list((out / "models").iterdir())) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_what_is_no_report_is_left_alone(tmp_path: Path) -> None:
    file, folder, link = tmp_path / "file", tmp_path / "folder", tmp_path / "link"
    file.write_text("mine")
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    link.symlink_to(folder)
    for place, why in (
        (file, "is a file"),
        (folder, "is no report"),
        (link, "is a link"),
        (tmp_path / "nowhere" / "report", "there is no directory"),
    ):
        with pytest.raises(SettingsError, match=why):
            require_free(place)
    (folder / MARKER).write_text('{"kind": "something else", "files": ["notes.txt"]}')
    with pytest.raises(SettingsError, match="is no report"):
        require_free(folder)
    assert (folder / "notes.txt").read_text() == "mine"


def test_a_file_put_into_a_report_is_not_lost(tmp_path: Path) -> None:
    out = tmp_path / "report"
    with report_folder(out, {}) as write:
        write("index.html", "first")
    (out / "models").mkdir()
    (out / "models" / "mine.txt").write_text("mine")
    with pytest.raises(SettingsError, match=re.escape("models/mine.txt")):
        require_free(out)


def test_half_a_report_is_none(tmp_path: Path) -> None:
    out = tmp_path / "report"

    def interrupted() -> None:
        with report_folder(out, {}) as write:
            write("index.html", "second")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not list(tmp_path.iterdir())
    with report_folder(out, {}) as write:
        write("index.html", "first")
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (out / "index.html").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    # As a kill between its two renames leaves it.
    out.rename(tmp_path / ".report.old")
    (tmp_path / ".report.partial" / "models").mkdir(parents=True)
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (out / "index.html").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    with report_folder(out, {}), pytest.raises(SettingsError, match="another process"):
        interrupted()


def test_a_report_touches_nothing_that_is_not_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, theirs = tmp_path / "report", tmp_path / "theirs"
    for place in (theirs, tmp_path / ".report.old"):
        place.mkdir()
        (place / "mine.txt").write_text("mine")

    def written() -> None:
        with report_folder(out, {}) as write:
            write("index.html", "ours")

    with pytest.raises(SettingsError, match="is no report"):
        written()
    (tmp_path / ".report.old").rename(tmp_path / "elsewhere")
    partial = tmp_path / ".report.partial"
    partial.symlink_to(theirs)
    with pytest.raises(SettingsError, match="cannot be written"):
        written()
    for place in (theirs, tmp_path / "elsewhere"):
        assert (place / "mine.txt").read_text() == "mine"
    partial.unlink()
    # Another process begins as soon as the name is free.
    put_back = folder._put_back

    def then_another(place: Path) -> None:
        put_back(place)
        if place.exists():
            partial.mkdir()

    monkeypatch.setattr(folder, "_put_back", then_another)
    written()
    assert partial.exists()


def test_a_file_that_came_meanwhile_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "report"

    def disturbed() -> None:
        with report_folder(out, {}) as write:
            write("index.html", "ours")
            out.mkdir()
            (out / "theirs.txt").write_text("theirs")

    with pytest.raises(SettingsError, match="is no report"):
        disturbed()
    assert [path.name for path in out.iterdir()] == ["theirs.txt"]
    assert [path.name for path in tmp_path.iterdir()] == ["report"]


def test_drawings_in_one_page_share_no_name() -> None:
    drawn = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><defs><clipPath id="clip1">'
        '<path d="M0,0"/></clipPath></defs><g clip-path="url(#clip1)" role="graphics-object"'
        ' aria-roledescription="mark"/></svg>'
    )
    one = embedded(drawn, "one", 'a < b & "c"')
    assert 'id="one-clip1"' in one
    assert "url(#one-clip1)" in one
    assert "graphics-object" not in one
    assert Xml.fromstring(one).get("aria-label") == 'a < b & "c"'
    assert "clip1" not in embedded(drawn, "two", "").replace("two-clip1", "")


def test_a_file_says_around_its_drawing_what_the_page_says_beside_it() -> None:
    drawn = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="200" height="90" viewBox="0 0 200 90">'
        '<path d="M0,0h200v90"/></svg>'
    )
    words = Words(("a <finding>", "& its second line"), ("",), ("a caption that is wide" * 9,))
    root = Xml.fromstring(framed(drawn, words))
    texts = [each for each in root.iter() if each.tag.endswith("}text")]
    assert [each.text for each in texts] == [*words.finding, *words.caption]
    assert root.get("aria-label") == "a <finding> & its second line"
    (inner,) = [each for each in root if each.tag.endswith("}g")]
    top = float(re.findall(r"[0-9.]+", inner.get("transform") or "")[1])
    ends = [float(each.get("y") or 0) for each in texts]
    # Words end above the drawing or begin below it, and all is within the file.
    assert ends[1] < top
    assert top + 90 < ends[2] < float(root.get("height") or 0)
    assert float(root.get("width") or 0) > 22 * 9 * 9 * 0.48
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"


def test_a_name_is_no_formula_in_a_spreadsheet(tmp_path: Path) -> None:
    new_home(tmp_path / "home")
    scores = curve(0, 5, 0.5)
    store(tmp_path / "home", "r0", scores, architecture="=HYPERLINK(1)", family="-2+3")
    folder = write_report(tmp_path / "home", tmp_path / "out").folder
    signatures = pd.read_csv(folder / "data" / "signatures.csv")
    assert set(signatures["model"]) == {"'=HYPERLINK(1)"}
    assert set(signatures["family"]) == {"'-2+3"}
    assert signatures["affinity"].tolist() == pytest.approx([np.mean(each) for each in scores])
    for path in (folder / "data").glob("*.csv"):
        cells = path.read_text(encoding="utf-8").replace('"', "").replace("\n", ",").split(",")
        assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))], path


def test_only_words_too_long_for_paper_are_broken() -> None:
    frame = pd.DataFrame({"a": ["characteristic of a net", "file:/a/long/path/of/weights.pth"]})
    shown = page_table(Table("t", "caption", frame, [TableColumn("a", "A")]))
    assert [row[0].long for row in shown.rows] == [False, True]


def test_a_table_has_its_first_rows_and_how_many_there_are() -> None:
    frame = pd.DataFrame({"a": [f"net {number}" for number in range(1200)]})
    table = Table("t", "Caption.", frame, [TableColumn("a", "A")])
    cut, whole = page_table(table, most=3), page_table(table, most=1200)
    assert [row[0].text for row in cut.rows] == ["net 0", "net 1", "net 2"]
    assert "1,200" in cut.caption
    assert (len(whole.rows), whole.caption) == (1200, "Caption.")


def test_values_are_written_as_readers_expect() -> None:
    assert [fixed(2)(each) for each in (-0.001, 0.001, -0.01)] == ["0.00", "0.00", "-0.01"]
    assert [fixed(1)(each) for each in (-123456789.0, 12345)] == ["-1.2e+08", "12345.0"]
    assert [cell(each) for each in (None, float("nan"), pd.NA, pd.NaT, "")] == [NOTHING] * 5
    assert cell(np.array(["a", "b"])) == "a, b"
    assert cell(0.123456) == "0.1235"
    assert [probability(each) for each in (0.5, 1e-5)] == ["0.500", "< 0.001"]
    assert not missing(0)
    assert [slug(each) for each in ("ResNet-18 @ <x>", "..", "Ünï")] == ["resnet-18-x", "run", "n"]


def test_a_table_leaves_out_what_says_nothing_and_sorts_by_value() -> None:
    frame = pd.DataFrame({"a": ["x", "Y"], "b": [2.0, np.nan], "c": [None, None]})
    columns = [TableColumn(name, name.upper()) for name in "abcd"]
    shown = page_table(Table("t", "caption", frame, columns), {"a": {"x": "p.html"}})
    assert [column.title for column in shown.columns] == ["A", "B"]
    (first, second) = shown.rows
    assert (first[0].link, second[0].link) == ("p.html", "")
    assert [cell.key for cell in (*first, *second)] == ["x", "2.0", "y", ""]
    assert shown.numeric == (False, True)


def test_numbers_of_a_column_have_as_many_decimals() -> None:
    for values, texts in (
        ([0.25, -0.01999, 0.0, None], ["0.25", "-0.02", "0.00", NOTHING]),
        ([-0.05, 1.64e-8], ["-5.000e-02", "1.640e-08"]),
        ([1e7, 0.5], ["1.000e+07", "5.000e-01"]),
        ([5000.25, 3.28], ["5000.2", "3.3"]),
        ([12345.0, 2.0], ["12345", "2"]),
    ):
        shown = table_of("t", "caption", ["a"], {"a": values})
        assert [row[0].text for row in shown.rows] == texts


def test_a_table_without_rows_has_its_first_column() -> None:
    frame, columns = pd.DataFrame({"a": []}), [TableColumn("a", "A")]
    empty = page_table(Table("t", "caption", frame, columns))
    assert (empty.rows, empty.numeric) == ((), (False,))


def test_a_run_that_was_cancelled_is_not_under_way(tmp_path: Path) -> None:
    new_home(place := tmp_path / "home")
    store(place, "r0", curve(0, 7, 0.9), architecture="a")
    store(place, "r1", [], status="cancelled", architecture="b", sites=None)
    write_report(place, tmp_path / "report")
    text = " ".join(Page(tmp_path / "report" / "index.html").text)
    assert "1 run cancelled" in text
    assert "under way" not in text


def test_equal_names_of_two_sources_are_two_architectures(tmp_path: Path) -> None:
    store = Builder(tmp_path)
    for source in ("small", "timm"):
        store(f"{source}0", [0.5, 0.6], architecture="resnet18", source=source)
    assert survey_facts(ReportMaterial(tmp_path))["architectures"] == "2"
