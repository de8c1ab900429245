"""The page of a model names the flags of its sites, and which of them are left out for it."""

from __future__ import annotations

from pathlib import Path

from analysis.report.data import ReportMaterial
from analysis.report.model_page import model_pages
from analysis.text import NOTHING
from survey.results import FLAGS
from tests.analysis.homes import Builder


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
