"""Files of figures: whole or not at all, readable offline, and safe whatever models are called."""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import altair as alt
import pandas as pd
import pytest
import vl_convert

from analysis import figures
from analysis.figures.export import csv_text, svg
from analysis.figures.files.vega import specification, svg_of
from survey.errors import SettingsError
from tests.analysis.figures.frames import surveyed

EVIL = "</script><script>alert(1)</script><b>&"


def chart(name: str = "plain") -> alt.Chart:
    return (
        alt.Chart(pd.DataFrame({"x": [1, 2], "name": name}))
        .mark_point()
        .encode(x="x:Q", color="name:N")
        .properties(description=name)
    )


@pytest.mark.slow(seconds=2)
def test_every_ending_has_its_format(tmp_path):
    begins = {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF", ".HTML": b"<!DOCTYPE html>"}
    for ending, begin in begins.items():
        figures.save(chart(), tmp_path / f"figure{ending}")
        assert (tmp_path / f"figure{ending}").read_bytes().startswith(begin)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "figure.HTML", "figure.pdf", "figure.png", "figure.svg",
    ]  # fmt: skip


def test_a_link_is_followed(tmp_path: Path) -> None:
    (link := tmp_path / "link.svg").symlink_to(tmp_path / "target.svg")
    figures.save(chart(), link)
    assert link.is_symlink()
    assert (tmp_path / "target.svg").read_bytes().startswith(b"<svg")


def test_the_data_lie_beside_it(tmp_path):
    rows = pd.DataFrame({"model": ["a,b", "c"], "affinity": [0.5, None]})
    figures.save(chart(), tmp_path / "figure.svg", rows)
    assert (tmp_path / "figure.csv").read_text() == 'model,affinity\n"a,b",0.5\nc,\n'


def page(drawn: alt.TopLevelMixin, folder: Path) -> str:
    figures.save(drawn, folder / "page.html")
    return (folder / "page.html").read_text()


@pytest.mark.slow(seconds=2)
def test_no_name_ends_the_drawing(tmp_path):
    characters = [chr(code) for code in [*range(0x180), *range(0x2000, 0x2070), 0xFEFF, 0xFFFE]]
    names = [f"a{each}b" for each in characters if each not in "\ud800"]
    rows = pd.DataFrame({"name": names, "y": range(len(names))})
    every = alt.Chart(rows, title=names[0]).mark_point().encode(x="name:N", y="y:Q")
    for drawn in (svg(every), page(every, tmp_path).rpartition("<script>")[2]):
        assert {unicodedata.category(each) for each in set(drawn) - {"\n"}}.isdisjoint(
            ("Cc", "Cf", "Cn", "Co", "Zl", "Zp")
        )
    figures.save(every, tmp_path / "every.png")


def test_a_column_of_any_name_is_written_once_and_harmless():
    rows = pd.DataFrame([["=1", 0.5, "+a", "b", -2]], columns=[3, "=sum", "twice", "twice", "n"])
    assert csv_text(rows) == "3,'=sum,twice,twice,n\n'=1,0.5,'+a,b,-2\n"
    assert csv_text(pd.DataFrame(columns=["@a"])) == "'@a\n"


@pytest.mark.parametrize("name", ["figure.eps", "figure", "figure.svg.txt"])
def test_other_endings_are_refused(tmp_path, name):
    with pytest.raises(SettingsError, match=r"must end in \.svg, \.png, \.pdf or \.html"):
        figures.save(chart(), tmp_path / name)


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    with pytest.raises(SettingsError, match="there is no directory"):
        figures.save(chart(), tmp_path / "nowhere" / "figure.svg")
    (tmp_path / "figure.svg").mkdir()
    with pytest.raises(SettingsError, match="cannot be written"):
        figures.save(chart(), tmp_path / "figure.svg")
    assert [path.name for path in tmp_path.iterdir()] == ["figure.svg"]


def test_a_page_needs_no_network(tmp_path):
    drawn = page(figures.model_chart(surveyed(1)), tmp_path)
    # The scripts name addresses in comments and messages; nothing is loaded from one.
    markup = re.sub(r"<script>.*?</script>", "", drawn, flags=re.DOTALL)
    assert not re.search(r"https?:", markup)
    assert not re.search(r"<(script|link|img|iframe)[^>]*(src|href)=", markup)
    assert "default-src 'none'" in markup
    assert drawn.count("<script>") == drawn.count("</script>") == 2


def test_no_name_ends_the_script(tmp_path):
    drawn = page(chart(EVIL), tmp_path)
    assert drawn.count("</script>") == 2
    assert "<script>alert" not in drawn
    spec = re.search(r'vegaEmbed\("#figure", (\{.*\}), \{"renderer"', drawn)
    assert spec
    assert json.loads(spec.group(1))["description"] == EVIL
    assert "<title>&lt;/script&gt;" in drawn
    assert "<b>" not in figures.svg(chart(EVIL))


def test_a_figure_of_a_kind_drawn_before_is_as_if_alone():
    for rows in ({"x": [1.0, 2.0]}, {"x": [4.0]}, {"x": [-3.0, 0.0, 7.5]}):
        drawn = alt.Chart(pd.DataFrame(rows), description=str(rows)).mark_point().encode(x="x:Q")
        spec = specification(drawn)
        alone = vl_convert.vega_to_svg(vl_convert.vegalite_to_vega(spec))
        here, there = (re.sub("clip[0-9]+", "", each) for each in (alone, svg_of(spec)))
        assert here == there


def test_many_rows_are_no_error_and_nan_is_null():
    rows = pd.DataFrame({"x": [float("nan"), *range(6000)]})
    spec = specification(alt.Chart(rows).mark_point().encode(x="x:Q"))
    (data,) = spec["datasets"].values()
    assert len(data) == 6001
    assert data[0] == {"x": None}


@pytest.mark.parametrize("name", [name for name in figures.__all__ if name.endswith("_chart")])
def test_every_figure_is_documented(name):
    text = (Path(__file__).parents[3] / "docs" / "analysis.md").read_text(encoding="utf-8")
    assert f"`{name}(" in text


def test_the_package_names_what_it_holds():
    assert set(figures.__all__) == set(dir(figures))
    for name in figures.__all__:
        assert callable(getattr(figures, name)), name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        figures.nothing  # noqa: B018
