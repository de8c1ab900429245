"""The page of a model names the flags of its sites, and which of them are left out for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.data.few_runs import OneRun, run_of
from analysis.data.provenance import provenance_of, provenance_of_run
from analysis.report.data import ReportMaterial
from analysis.report.model_page import model_pages, model_values
from analysis.text import NOTHING
from catalog.open_home import open_home
from catalog.store import projection
from catalog.store.reader import query
from catalog.store.records import NetworkRecord
from catalog.store.writer import Writer
from survey.network_measures.base import NetworkScore
from survey.results import FLAGS
from tests.analysis.figures.drawn import words
from tests.analysis.homes import Builder

NAN = float("nan")

LOOP = NetworkScore(None, "a recurrent layer")


def _parts(one: OneRun) -> tuple[Any, ...]:
    return one.row, one.sites, one.gaps, one.measures


def test_flags_are_explained_where_a_site_bears_them(tmp_path: Path) -> None:
    with Builder(tmp_path) as store:
        store("flagged", [0.4, 0.5, 0.6], {"flags": [("ridge", "few_images"), ("few_images",), ()]})
        store("plain", [0.4, 0.5, 0.6], architecture="zoo")
    flagged, plain = model_pages(ReportMaterial(tmp_path))
    left_out, few = flagged.values["problems"].items()
    assert left_out == ("1 of 3 sites left out", FLAGS["ridge"])
    assert few[0] == "few_images at 2 of 3 sites"
    assert "17 images a score" in few[1]
    table = flagged.values["tables"]["Site by site"]
    (place,) = (n for n, column in enumerate(table.columns) if column.name == "flags")
    texts = [row[place].text for row in table.rows]
    # In the order of a list of the store, on one line.
    assert texts == ["few_images,\N{NO-BREAK SPACE}ridge", "few_images", NOTHING]
    explained = {flag for flag in FLAGS if flag in table.columns[place].meaning}
    assert explained == {"few_images", "ridge"}
    assert plain.values["problems"] == {}
    names = {column.name for column in plain.values["tables"]["Site by site"].columns}
    assert "flags" not in names


def test_the_statement_of_a_signature_leaves_out_what_its_figure_does(tmp_path: Path) -> None:
    with Builder(tmp_path) as store:
        store("flagged", [0.4, 0.5, 0.6], {"flags": [("ridge",), (), ()]})
    (page,) = model_pages(ReportMaterial(tmp_path))
    (exhibit,) = page.exhibits
    given = query(open_home(tmp_path, create=False), exhibit.sql)["affinity"].to_pylist()
    assert given == [None, 0.5, 0.6]
    assert exhibit.rows()["affinity"].isna().tolist() == [True, False, False]
    # The only run is all of the selection, and its caption says what is left out all the same.
    assert "left out: 1 ridge" in words(exhibit.chart())


def test_measures_of_the_network_are_listed_with_values_or_reasons(tmp_path: Path) -> None:
    resting = {"conventions": {"gate": "merged as a sum"}}
    with Builder(tmp_path) as store:
        store("measured", [0.4], measures={"path_length": NetworkScore(2.5, details=resting)})
        store("plain", [0.4], architecture="b", measures={"path_length": LOOP})
        store("none", [0.4], architecture="c")
    material = ReportMaterial(tmp_path)
    pages = dict(zip(material.models["run_id"], model_pages(material), strict=True))
    tables = {name: page.values["tables"].get("Whole network") for name, page in pages.items()}
    texts = {
        name: {column.name: cell.text for column, cell in zip(table.columns, row, strict=True)}
        for name, table in tables.items()
        if table
        for row in table.rows
    }
    assert texts == {
        "measured": {
            "measure": "path length", "value": "2.5", "conventions": "gate: merged as a sum",
        },
        "plain": {"measure": "path length", "reason": LOOP.reason},
    }  # fmt: skip


def test_a_measure_added_to_a_finished_run_reaches_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(projection, "PAUSE", 0.0)
    with Builder(tmp_path) as store:
        store("late", [0.4])
    before = run_of(store.home, "late")
    with Writer.open(store.home) as writer:
        writer.write(network=[NetworkRecord("late", 1, {"path_length": LOOP})])
    after = run_of(store.home, "late")
    assert [each["reason"] for each in after.measures] == [LOOP.reason]
    assert (before.measures, before.version != after.version) == ([], True)


def test_a_run_alone_is_stated_as_among_all(tmp_path: Path) -> None:
    with Builder(tmp_path) as store:
        store("flagged", [0.4, 0.5, 0.6], {"flags": [("ridge",), ("few_images",), ()]})
        store(
            "gap", [[0.4, NAN, 0.6], [0.3, NAN, NAN]], {"norm": [0.1, 2.0, NAN]}, architecture="a"
        )
        store(
            "nothing", [NAN, NAN], architecture="b", checkpoint="file:/zoo/w.pth",
            measures={"path_length": NetworkScore(3.0), "another": LOOP},
        )  # fmt: skip
        store("early", [], status="failed", error="no memory", stage="forward", architecture="c")
    material = ReportMaterial(tmp_path)
    pages = dict(zip(material.models["run_id"], model_pages(material), strict=True))
    assert set(pages) == {"flagged", "gap", "nothing", "early"}
    for name, page in pages.items():
        one = run_of(store.home, name[:3])
        values, among = dict(model_values(*_parts(one))), dict(page.values)
        mine, theirs = (each.pop("tables") for each in (values, among))
        assert values == {key: among[key] for key in values}
        for heading in ("Site by site", "Whole network"):
            one_page, of_many = mine.get(heading), theirs.get(heading)
            assert (one_page and one_page.rows) == (of_many and of_many.rows)
            assert (one_page and one_page.numeric) == (of_many and of_many.numeric)
        alone = material.models[material.models["run_id"] == name]
        caption = provenance_of(alone).caption().partition(";")[2]
        assert provenance_of_run(one.row).caption().partition(";")[2] == caption
    assert "1 of 3 sites without a score" in pages["gap"].values["problems"]


def test_a_model_alone_has_no_nearest_ones(tmp_path: Path) -> None:
    with Builder(tmp_path) as store:
        store("one", [0.4, 0.5, 0.6])
    (page,) = model_pages(ReportMaterial(tmp_path))
    assert "Nearest models" not in page.values["tables"]
    assert "Site by site" in page.values["tables"]
