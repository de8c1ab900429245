"""Curves: which sites make them, in what order, and what a normalisation does."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.similarity.signature_curve import curves, normalised, without_curve
from survey.errors import SettingsError
from tests.analysis.similarity.made_curves import frame

NAN = float("nan")


def test_curves_follow_the_frame_and_their_sites_the_execution() -> None:
    signatures = frame({"b": [0.1, 0.2, 0.3], "a": [0.9]})
    mixed = signatures.iloc[[2, 0, 3, 1]]
    assert [(curve.model, curve.values.tolist()) for curve in curves(mixed)] == [
        ("b", [0.1, 0.2, 0.3]),
        ("a", [0.9]),
    ]


def test_what_has_no_affinity_is_left_out_and_counted() -> None:
    signatures = frame({"a": [0.1, NAN, 0.3, NAN], "none": [NAN, NAN], "b": [0.5]})
    signature_curves = curves(signatures)
    assert [curve.model for curve in signature_curves] == ["a", "b"]
    assert [curve.left_out for curve in signature_curves] == [2, 0]
    assert signature_curves[0].sites is not None
    assert signature_curves[0].sites.tolist() == [0, 2]
    assert without_curve(signatures) == ("none",)
    assert curves(signatures.iloc[:0]) == []


def test_sites_keep_their_depth_where_others_are_missing() -> None:
    (curve,) = curves(frame({"a": [NAN, 0.2, NAN, 0.6, 0.8]}))
    assert curve.depths is not None
    assert curve.depths.tolist() == [0.25, 0.75, 1.0]
    (again,) = curves(frame({"a": [NAN, 0.2, NAN, 0.6, 0.8]}).drop(columns="relative_depth"))
    assert again.depths is not None
    assert again.depths.tolist() == [0.25, 0.75, 1.0]


def test_a_missing_site_leaves_its_neighbours_where_they_are() -> None:
    """Its own depths go to the nearest that are there, the earlier one of two equally near."""
    values = np.linspace(0.2, 0.8, 7)
    (holed,) = curves(frame({"a": np.where([0, 0, 1, 0, 1, 0, 0], NAN, values)}))
    resampled = normalised(holed.values, "relative", 13, depths=holed.depths)
    sites = [0, 0, 1, 1, 1, 3, 3, 3, 3, 5, 5, 5, 6]
    assert resampled.tolist() == values[sites].tolist()


@pytest.mark.parametrize("size", [1, 2, 3, 100, 400])
def test_relative_holds_the_score_of_the_nearest_site(size: int) -> None:
    values = np.random.default_rng(size).random(size)
    resampled = normalised(values, "relative")
    assert resampled.shape == (100,)
    assert (resampled[0], resampled[-1]) == (values[0], values[-1])
    for place, value in enumerate(resampled):
        exact = place / 99 * (size - 1)
        (site,) = np.flatnonzero(values == value)
        assert abs(site - exact) <= 0.5 + 1e-9


def test_relative_keeps_every_score_where_there_are_points_enough() -> None:
    """A line through the sites would flatten what goes up and down from site to site."""
    zigzag = np.array([0.7, 0.9] * 12)
    assert set(normalised(zigzag, "relative")) == {0.7, 0.9}


def test_the_others_leave_a_curve_as_it_is() -> None:
    for name in ("raw", "length"):
        assert normalised([0.1, 0.2], name).tolist() == [0.1, 0.2]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "normalisation", "points", "words"),
    [
        ([0.5], "z-score", 100, "'z-score'.* raw, length, relative"),
        ([], "raw", 100, "no values"),
        ([0.5], "relative", 1, "1 relative depths, must be at least 2"),
    ],
)
def test_what_cannot_be_is_refused(
    values: list[float], normalisation: str, points: int, words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        normalised(values, normalisation, points)  # type: ignore[arg-type]


def test_a_frame_that_is_no_signatures_is_refused() -> None:
    signatures = frame({"a": [0.1, 0.2]})
    with pytest.raises(SettingsError, match="no column model, affinity"):
        curves(signatures.drop(columns=["model", "affinity"]))
    with pytest.raises(SettingsError, match="site 0 of a occurs twice"):
        curves(signatures.iloc[[0, 1, 0]])
