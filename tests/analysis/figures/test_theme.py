"""The theme: colours every eye tells apart, and figures that say where they come from."""

from __future__ import annotations

import itertools

import altair as alt
import numpy as np
import pandas as pd
import pytest

from analysis.figures.figure import Figure, figure
from analysis.figures.marks.model_colours import FAMILIES
from analysis.figures.theme import (
    DASHES,
    PALETTE,
    QUIET,
    SHAPES,
    UNKNOWN,
    affinity_across,
    colour_scale,
    dash_scale,
    shape_scale,
    wrapped,
)
from analysis.text import chance, listed, number
from tests.analysis.figures.drawn import parsed, words
from tests.analysis.figures.frames import surveyed

#: Machado, Oliveira and Fernandes 2009, table 1, severity 1, on linear RGB.
EYES = {
    "normal": np.eye(3),
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)


def linear(colour: str) -> np.ndarray:
    encoded = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    scaled = XYZ @ np.clip(rgb, 0, 1) / (XYZ @ np.ones(3))
    f = np.where(scaled > 216 / 24389, np.cbrt(scaled), (24389 / 27 * scaled + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("eye", list(EYES))
def test_every_eye_tells_the_colours_apart(eye):
    seen = [lab(np.array(EYES[eye]) @ linear(colour)) for colour in PALETTE]
    nearest = min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))
    assert nearest > 20


@pytest.mark.parametrize("colour", [*PALETTE, QUIET])
def test_colours_stand_out_on_paper(colour):
    assert 1.05 / (XYZ[1] @ linear(colour) + 0.05) >= 3


def test_what_shares_a_colour_has_another_shape_and_dash():
    names = [f"family {place}" for place in range(35)]
    colours, shapes, dashes = (
        scale(names)["range"] for scale in (colour_scale, shape_scale, dash_scale)
    )
    assert len(set(zip(colours, shapes, strict=True))) == 35
    assert len(set(zip(colours, map(str, dashes), strict=True))) == 35
    assert len(SHAPES) == 6
    assert len(DASHES) == 5


def test_the_unknown_family_is_last_and_grey():
    rows = pd.DataFrame({"family": ["b", None, "A"]})
    looks = FAMILIES.marks(rows.assign(colour=FAMILIES.of(rows)), 300)
    assert looks["shape"].to_dict()["scale"]["domain"] == ["A", "b", UNKNOWN]
    scale = colour_scale([UNKNOWN, "A"])
    assert dict(zip(scale["domain"], scale["range"], strict=True)) == {
        UNKNOWN: QUIET,
        "A": PALETTE[0],
    }


def framed(finding: str, note: str = "", source: pd.DataFrame | None = None) -> Figure:
    """Return a figure of one point, narrow, and of no runs by default."""
    point = alt.Chart(pd.DataFrame({"x": [1]})).mark_point().encode(x="x:Q")
    made_from = pd.DataFrame() if source is None else source
    return figure(point, finding, note=note, source=made_from, width=300)


def test_a_figure_says_what_it_found_and_what_it_was_made_from():
    drawn = framed("Everything is <linear>", "As far as we saw.", surveyed(3))
    shown = words(drawn)
    assert "Everything is <linear>" in shown
    assert "As far as we saw." in shown
    assert "all models; 3 runs (ids hash to" in shown
    assert "measuring version 3; survey 0." in shown
    root = parsed(drawn)
    assert root.get("role") == "img"
    assert root.get("aria-label") == "Everything is <linear>. As far as we saw."


def test_a_figure_of_unknown_runs_says_so():
    assert "which runs is not recorded" in words(framed("Found"))


def test_long_findings_are_broken_not_cut():
    finding = "one two three four five " * 12
    drawn = framed(finding)
    assert finding.strip() in words(drawn)
    assert float(parsed(drawn).get("width") or 0) < 400
    assert max(map(len, wrapped(finding, 300, 13))) <= 300 / (13 * 0.48)


def test_a_notebook_shows_it_without_network():
    bundle = framed("Found").add_params(alt.param(name="p"))._repr_mimebundle_()
    assert bundle["image/svg+xml"].startswith("<svg")
    assert bundle["application/vnd.vegalite.v6.json"]["$schema"].split("/")[-2] == "vega-lite"
    assert bundle["text/plain"] == "Found"
    assert "text/html" not in bundle


def test_words():
    assert [number(value) for value in (0.126, -0.001, None, float("nan"), -2)] == [
        "0.13", "0.00", "-", "-", "-2.00",
    ]  # fmt: skip
    assert [chance(value) for value in (0.0004, 0.0312, float("nan"))] == [
        "p < 0.001", "p = 0.031", "no p",
    ]  # fmt: skip
    assert listed("abc") == "a, b and c"
    assert listed("abcde") == "a, b, c and 2 others"
    assert listed(["a"]) == "a"
    assert listed([]) == ""


@pytest.mark.parametrize("lowest", [0.0, 0.04, 0.3, 0.69, 0.7, 0.999, 1.0])
def test_a_horizontal_axis_of_affinity_begins_where_something_is_drawn(lowest: float) -> None:
    drawn = pd.Series([1.0, None, lowest]), pd.Series(dtype="float64")
    low, high = affinity_across(*drawn).to_dict()["scale"]["domain"]
    assert high == 1
    assert 0 <= low <= lowest <= low + 0.1 + 1e-9
    assert affinity_across(pd.Series(dtype="float64")).to_dict()["scale"]["domain"] == [0, 1]
