"""Signatures over depth: gaps stay gaps, and every site is where its depth says."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from analysis.figures import (
    depth_chart,
    model_chart,
    model_rows,
    overlay_chart,
    signature_chart,
    signature_lines,
    training_chart,
    training_rows,
)
from analysis.figures.files.vega import specification
from analysis.figures.overlay import HEIGHT
from survey.errors import NothingToDraw, UnknownName
from tests.analysis.figures.drawn import marks, note, title, words
from tests.analysis.figures.frames import surveyed, with_gaps
from tests.analysis.made import signature, signatures

pytestmark = pytest.mark.slow(seconds=8)


def segments(chart) -> list[int]:
    """Return how many unbroken pieces each line has."""
    return [(line.get("d") or "").count("M") for line in marks(chart, "line")]


def test_lines_run_from_the_first_site_to_the_last():
    lines = signature_lines(surveyed(9))
    assert set(lines.groupby("model")["depth"].min()) == {0.0}
    assert set(lines.groupby("model")["depth"].max()) == {1.0}
    without = surveyed(9).drop(columns=["relative_depth", "graph_depth", "model"])
    pd.testing.assert_series_equal(signature_lines(without)["depth"], lines["depth"])
    assert "alexnet_1 (bundled)" in set(signature_lines(without)["model"])


def test_a_site_without_a_score_is_a_gap_and_no_zero():
    whole, broken = surveyed(1), with_gaps(surveyed(1), 3)
    assert segments(model_chart(whole)) == [1]
    assert segments(model_chart(broken)) == [2]
    assert segments(signature_chart(broken)) == [2]
    # A mark a scored site, a dotted line a site without; nothing lies on the axis.
    assert len(marks(model_chart(broken), "symbol")) == len(broken) - 1
    assert len(marks(model_chart(broken), "rule")) == 1
    assert not marks(model_chart(whole), "rule")
    assert "n = 6, 1 missing" in words(model_chart(broken))


@pytest.mark.parametrize(("value", "lowest"), [("affinity", 0.6), ("cka", 0.0)])
def test_an_overlay_of_affinities_begins_near_the_lowest(value: str, lowest: float):
    frame = surveyed(3)
    frame[value] = np.linspace(0.65, 0.95, len(frame))
    lines = marks(overlay_chart(frame, value), "line")
    heights = [float(y) for line in lines for y in re.findall(r",([\d.]+)", line.get("d") or "")]
    assert (HEIGHT - max(heights)) / HEIGHT == pytest.approx(
        (0.65 - lowest) / (1 - lowest), abs=0.01
    )


def test_rows_say_gate_and_place():
    rows = model_rows(surveyed(9))
    assert set(rows["activation"]) == {"relu", "silu", "gelu", "sigmoid (gate)"}
    assert set(rows["repeat"]) == {"1", "2", "3"}
    assert len(rows) == len(surveyed(9))


def test_titles_hold_the_mean_deviation():
    one = surveyed(1)
    deviation = one["affinity_std"].mean()
    shown = words(model_chart(one))
    assert f"std {deviation:.3f}, n = 7" in shown
    assert f"median {one['affinity'].median():.2f}" in shown
    several = words(model_chart(surveyed(3)))
    assert f"relu, std {deviation:.3f}, n = 7" in several


def test_families_are_ranked_and_counted():
    frame = surveyed(18)
    medians = frame.groupby("family")["affinity"].median()
    shown = words(signature_chart(frame))
    assert f"{medians.idxmax()} is the most affine" in shown
    assert f"{medians.idxmin()} the least" in shown
    assert f"median {medians.max():.2f} against {medians.min():.2f} (18 models" in shown
    assert "ResNet (n = 2)" in shown


def test_models_of_unknown_family_are_no_family():
    names = {"a": 0.5, "b": 0.5, "c": 0.6, "d": 0.6}
    runs = [signature(name, [value], family=family) for family, (name, value) in zip(
        ["low", "low", "high", "high"], names.items(), strict=True
    )]  # fmt: skip
    known = signatures(*runs).assign(relative_depth=0.0)
    unknown = signatures(*(signature(name, [0.9], family=None) for name in "ef"))
    both = pd.concat([known, unknown.assign(relative_depth=0.0)])
    assert title(signature_chart(known)).startswith("high is the most affine family and low")
    assert title(signature_chart(both)).startswith("high is the most affine family and low")
    # Equal names of two sources are two networks.
    twins = known.assign(architecture="net", source=list("wxyz"))
    assert title(signature_chart(twins)) == title(signature_chart(known))


@pytest.mark.parametrize("draw", [signature_chart, model_chart])
def test_depth_can_be_chosen_and_is_relative_where_it_cannot(draw):
    drawn = draw(branched(surveyed(2)))
    assert _choices(drawn) == ["relative depth", "graph depth", "site"]
    assert words(drawn).count("relative depth") == 2


@pytest.mark.parametrize("draw", [signature_chart, model_chart])
def test_without_branches_graph_depth_and_site_are_one_choice(draw):
    assert _choices(draw(surveyed(2))) == ["relative depth", "graph depth"]


def branched(frame):
    """Return signatures of networks whose sites lie on branches."""
    return frame.assign(graph_depth=frame["site"] // 2 + 1)


def _choices(drawn) -> list[str]:
    (choice,) = [each for each in specification(drawn)["params"] if each["name"] == "depth_axis"]
    assert choice["value"] == "relative depth"
    return choice["bind"]["options"]


@pytest.mark.parametrize("value", [0.5, np.nan])
def test_one_site_can_be_drawn(value):
    one = surveyed(1).head(1).assign(affinity=value, affinity_std=np.nan, relative_depth=0.0)
    for draw in (signature_chart, model_chart):
        drawn = draw(one)
        assert len(marks(drawn, "symbol")) == (0 if np.isnan(value) else 1)
    assert ("no site has a score" in words(model_chart(one))) == np.isnan(value)


def test_affinity_has_one_axis_in_every_panel():
    text = str(specification(signature_chart(surveyed(5))))
    assert text.count("'field': 'affinity'") == text.count(
        "'field': 'affinity', 'scale': {'domain': [0, 1], 'nice': False}"
    )


def test_models_of_a_family_stand_in_order_of_depth():
    frame = surveyed(27)
    shown = words(depth_chart(frame, "VGG"))
    assert shown.index("vgg_1") < shown.index("vgg_2") < shown.index("vgg_3")
    assert "shows no trend with depth" in shown
    assert "at 10 sites" in shown
    assert "at 22" in shown
    assert "3 architectures" in shown
    assert "all models, family VGG; 3 runs" in shown
    assert "no depths to compare" in words(depth_chart(surveyed(9), "VGG"))


def trained() -> pd.DataFrame:
    after = surveyed(2)
    before = after[after["architecture"] == "alexnet_1"].assign(
        run_id="init", checkpoint="init:0", affinity=lambda frame: frame["affinity"] - 0.2
    )
    result = pd.concat([after, before], ignore_index=True)
    result.attrs = after.attrs
    return result


def test_training_is_shown_where_both_states_are():
    rows = training_rows(trained())
    assert set(rows["panel"]) == {"alexnet_1 on photos"}
    assert rows.groupby("state").size().to_dict() == {"initial": 7, "trained": 7}
    means = rows.groupby("state")["affinity"].mean()
    drawn = training_chart(trained())
    shown = words(drawn)
    assert f"alexnet_1 on photos, from {means['initial']:.2f}" in shown
    assert "2 runs" in shown
    assert len(marks(drawn, "line")) == 2


def test_training_without_both_states_says_so():
    assert training_rows(surveyed(2)).empty
    with pytest.raises(NothingToDraw, match="initial and trained"):
        training_chart(surveyed(2))


def test_sites_of_few_images_are_hollow():
    frame = surveyed(1)
    flagged = [("few_images",), ("few_images", "dead"), *[()] * (len(frame) - 2)]
    drawn = model_chart(frame.assign(flags=flagged))
    white = [each for each in marks(drawn, "symbol") if each.get("fill") == "white"]
    assert len(white) == 2
    assert "few_images" in note(drawn)
    assert "few_images" not in note(model_chart(frame))


def test_a_family_of_no_model_is_refused_with_those_there_are():
    with pytest.raises(UnknownName, match="family 'VG'") as refused:
        depth_chart(surveyed(9), "VG")
    assert refused.value.hint == "did you mean VGG?"
