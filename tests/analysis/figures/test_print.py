"""Figures for papers: their width, their letters, what is beside the picture, and labels in it."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from analysis import figures
from analysis.choices import PAPER_METRICS
from analysis.figure_style import FigureStyle
from analysis.figures.dendrogram import LEAF
from analysis.figures.files.labels import _apart, label_points
from analysis.figures.files.layout import _views, printed
from analysis.figures.files.vega import layers_of, specification
from analysis.relations.trend import trend_points, trends
from analysis.similarity.clusters import cluster
from analysis.similarity.distances import distance_matrix
from analysis.similarity.neighbours import neighbours
from survey.errors import SettingsError
from tests.analysis.figures.frames import surveyed
from tests.analysis.made import models, signature, signatures

FINDING = "Median affinity goes from"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a folder with a figure of four families as wide as a column, without its texts."""
    path = tmp_path_factory.mktemp("print")
    chart = figures.signature_chart(surveyed(4))
    style = FigureStyle(width="column", font_size=8, bare=True)
    for ending in ("svg", "png", "pdf"):
        assert figures.save(chart, path / f"figure.{ending}", style=style) == pytest.approx(8, 0.02)
    return path


@pytest.mark.slow(seconds=4)
def test_a_figure_is_as_wide_as_asked_for(folder: Any) -> None:
    svg, pdf = (folder / "figure.svg").read_text(), (folder / "figure.pdf").read_bytes()
    assert 'width="3.250in"' in svg
    box = re.search(rb"/MediaBox ?\[0 0 ([0-9.]+) ", pdf)
    assert box
    assert float(box[1]) / 72 == pytest.approx(3.25, abs=0.02)
    with Image.open(folder / "figure.png") as image:
        assert image.width / image.info["dpi"][0] == pytest.approx(3.25, abs=0.01)
        assert image.width == pytest.approx(975, abs=2)


@pytest.mark.slow(seconds=1)
def test_a_bare_figure_has_its_texts_in_its_metadata(folder: Any) -> None:
    svg, pdf = (folder / "figure.svg").read_text(), (folder / "figure.pdf").read_bytes()
    assert re.search(f"<title>[^<]*{FINDING}", svg)
    assert re.search("<metadata>[^<]*4 runs", svg)
    assert FINDING not in re.sub('<title>.*?</title>|aria-label=".*?"', "", svg)
    with Image.open(folder / "figure.png") as image:
        assert FINDING in image.text["Title"]
        assert "4 runs" in image.text["Source"]
    assert FINDING.encode("utf-16-be").hex().upper().encode() in pdf
    # A reader begins at the end: there the new table is, and in it the new object.
    start = int(re.findall(rb"startxref\s+(\d+)", pdf)[-1])
    table = re.match(rb"xref\n(\d+) 1\n(\d{10}) 00000 n\r\n", pdf[start:])
    assert table
    assert pdf[int(table[2]) :].startswith(table[1] + b" 0 obj\n<< /Title <FEFF")


def test_a_width_that_is_none_is_refused() -> None:
    for width in ("0", "wide", "nan", "1e9"):
        with pytest.raises(SettingsError, match="inches"):
            FigureStyle(width=width).check()
    with pytest.raises(SettingsError, match="lower one first"):
        FigureStyle(y_range=(1.0, 0.5)).check()


@pytest.mark.slow(seconds=2)
def test_a_range_is_that_of_every_vertical_axis_of_numbers() -> None:
    spec = specification(figures.model_chart(surveyed(1)))
    drawn = printed(spec, FigureStyle(y_range=(0.4, 0.9)))
    assert '"domain": [0.4, 0.9]' in str(drawn.spec).replace("'", '"')
    assert ">0.40<" in drawn.svg or ">0.4<" in drawn.svg
    with pytest.raises(SettingsError, match="no vertical axis of numbers"):
        printed({"mark": "bar", "width": 10, "encoding": {}}, FigureStyle(y_range=(0, 1)))


def scattered(points: list[tuple[float, float]]) -> dict[str, Any]:
    axis = {"type": "quantitative", "scale": {"domain": [0, 1]}}
    rows = [{"a": a, "b": b, "model": f"model{n}"} for n, (a, b) in enumerate(points)]
    layer = {
        "mark": {"type": "point"},
        "encoding": {
            "x": {"field": "a", **axis},
            "y": {"field": "b", **axis},
            "tooltip": [{"field": "model"}],
        },
    }
    return {"data": {"values": rows}, "width": 200, "height": 150, "layer": [layer]}


def test_points_are_labelled_where_no_label_meets_another() -> None:
    view = scattered([(0.5, 0.5), (0.52, 0.5), (0.1, 0.9), (1.0, 0.0)])
    placed = label_points(view, view)
    assert placed == len(view["layer"]) - 1 >= 3
    crowd = scattered([(0.5, 0.5)] * 60)
    assert label_points(crowd, crowd) < 12
    places = [(each["encoding"]["x"]["value"], each["encoding"]["y"]["value"])
              for each in crowd["layer"][1:]]  # fmt: skip
    assert len(set(places)) == len(places)


def test_labelled_points_keep_a_logarithmic_axis() -> None:
    rates = [0.001, 0.01, 0.1, 1.0]
    runs = [signature(f"{rate:g}", [0.9, 0.5], architecture="n", relative_depth=[0, 1])
            for rate in rates]  # fmt: skip
    frames = signatures(*runs), models([f"{rate:g}" for rate in rates], architecture="n",
                                       tags=[{"lr": rate} for rate in rates])  # fmt: skip
    chart = figures.trend_chart(trends(*frames), trend_points(*frames))
    drawn = printed(specification(chart), FigureStyle(label_points=True, bare=True))
    (view,) = (each for each in _views(drawn.spec) if "layer" in each)
    texts = [each for each in view["layer"] if each["mark"]["type"] == "text"]
    scales = [each["encoding"]["x"]["scale"] for each in layers_of(view) if each not in texts]
    assert {each["type"] for each in scales} == {"log"}
    assert len({tuple(each["domain"]) for each in scales}) == 1
    # Of four rates, each ten times the one before, the labels stand at equal distances.
    places = [each["encoding"]["x"]["value"] for each in texts
              if each["mark"]["align"] == "left"]  # fmt: skip
    steps = [b - a for a, b in pairwise(places)]
    assert len(steps) >= 2
    assert steps == pytest.approx([steps[0]] * len(steps), abs=0.2)


@given(st.lists(st.floats(0, 150), min_size=1, max_size=8))
def test_labels_of_lines_keep_their_order_and_distance(places: list[float]) -> None:
    apart = _apart(places, 150.0)
    by_place = [label for _, label in sorted(zip(places, apart, strict=True))]
    assert all(below - above >= 10 for above, below in pairwise(by_place))


def placed(chart: Any) -> str:
    """Return a chart's drawing in the width of a column, with nothing but the picture."""
    return printed(specification(chart), FigureStyle(width="column", bare=True)).svg


def test_narrow_cells_keep_their_numbers_in_two_lines() -> None:
    table = pd.DataFrame(
        {
            "level": "family", "name": "A", "dataset": "x", "metric": list(PAPER_METRICS), "n": 3,
            "pearson": 0.5, "std": 0.25, "p_corrected": 0.01,
        }
    )  # fmt: skip
    drawn = placed(figures.correlation_chart(table))
    assert drawn.count(">0.50<") == drawn.count(">± 0.25*<") == 5


def test_a_title_of_an_axis_takes_no_room_of_the_drawing() -> None:
    tree = figures.dendrogram_chart(cluster(distance_matrix(surveyed(4), cache=False)))
    drawn = printed(specification(tree), FigureStyle(width="column", bare=True))
    assert drawn.size[0] == pytest.approx(3.25 * 96, abs=3)
    assert ">(relative DTW)<" in drawn.svg
    assert drawn.spec["vconcat"][0]["width"] > 0.5 * drawn.size[0]
    # Leaves keep their distance, which their names fill.
    assert drawn.spec["vconcat"][0]["height"] == 4 * LEAF


def test_names_of_weights_take_a_second_line_where_there_is_little_room() -> None:
    names = [f"a_long_name_of_a_network@epoch {place}" for place in range(3)]
    signatures = surveyed(3)
    models = dict(zip(signatures["run_id"].unique(), names, strict=True))
    signatures["model"] = signatures["run_id"].map(models)
    nearest = neighbours(distance_matrix(signatures, cache=False), None, 1)
    drawn = placed(figures.neighbour_chart(nearest))
    assert [drawn.count(f">@epoch {place}<") for place in range(3)] == [1, 1, 1]
