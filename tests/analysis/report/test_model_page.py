"""The page of a model names the flags of its sites, and which of them are left out for it."""

from __future__ import annotations

from pathlib import Path

from analysis.data.few_runs import run_of
from analysis.data.provenance import provenance_of, provenance_of_run
from analysis.report.data import ReportMaterial
from analysis.report.model_page import model_pages, model_values
from analysis.text import NOTHING
from survey.results import FLAGS
from tests.analysis.homes import Builder

NAN = float("nan")


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


def test_a_run_alone_is_stated_as_among_all(tmp_path: Path) -> None:
    with Builder(tmp_path) as store:
        store("flagged", [0.4, 0.5, 0.6], {"flags": [("ridge",), ("few_images",), ()]})
        store(
            "gap", [[0.4, NAN, 0.6], [0.3, NAN, NAN]], {"norm": [0.1, 2.0, NAN]}, architecture="a"
        )
        store("nothing", [NAN, NAN], architecture="b", checkpoint="file:/zoo/w.pth")
        store("early", [], status="failed", error="no memory", stage="forward", architecture="c")
    material = ReportMaterial(tmp_path)
    pages = dict(zip(material.models["run_id"], model_pages(material), strict=True))
    assert set(pages) == {"flagged", "gap", "nothing", "early"}
    for name, page in pages.items():
        one = run_of(store.home, name[:3])
        values, among = model_values(one.row, one.sites, one.gaps), dict(page.values)
        mine, theirs = (each.pop("tables").get("Site by site") for each in (values, among))
        assert values == {key: among[key] for key in values}
        assert (mine and (mine.rows, mine.numeric)) == (theirs and (theirs.rows, theirs.numeric))
        alone = material.models[material.models["run_id"] == name]
        caption = provenance_of(alone).caption().partition(";")[2]
        assert provenance_of_run(one.row).caption().partition(";")[2] == caption
    assert "1 of 3 sites without a score" in pages["gap"].values["problems"]
