"""Shapes: the dip is that of a linear programme and of published tables."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.optimize import linprog

from analysis.data.provenance import provenance_of
from analysis.relations.score_shapes import (
    BANDWIDTHS,
    UNIFORM,
    bimodality_coefficient,
    density,
    shapes,
)
from analysis.statistics.dip import dip, dip_p, uniform_dips
from survey.errors import SettingsError
from tests.analysis.made import signature, signatures

RNG = np.random.default_rng


def dip_by_programme(values: ArrayLike) -> float:
    """Return the dip by definition: the nearest function with its mode at one of the numbers.

    For each such mode a linear programme finds the heights of the nearest function before and
    after each number; they are equal but at the mode. A mode between two numbers is no better
    than one at either of them.
    """
    x, counts = np.unique(np.asarray(values, float), return_counts=True)
    above = np.cumsum(counts) / counts.sum()
    below = above - counts / counts.sum()
    return min(_nearest(x, below, above, mode) for mode in range(len(x)))


def _nearest(
    x: NDArray[np.float64], below: NDArray[np.float64], above: NDArray[np.float64], mode: int
) -> float:
    m = len(x)
    unit = np.eye(2 * m + 1)
    left, right, distance = unit[:m], unit[m : 2 * m], unit[-1]
    rows, limits = [], []
    for place, height in ((left, below), (right, above)):
        rows += [*(place - distance), *(-place - distance)]
        limits += [*height, *-height]
    rows += [*(left - right), *(right[:-1] - left[1:])]
    limits += [0.0] * (2 * m - 1)
    slopes = (left[1:] - right[:-1]) / np.diff(x)[:, None]
    turns = slopes[1:] - slopes[:-1]
    rows += [*-turns[: max(mode - 1, 0)], *turns[mode:]]
    limits += [0.0] * (len(rows) - len(limits))
    smooth = np.delete(left - right, mode, axis=0)
    result = linprog(
        distance, A_ub=np.array(rows), b_ub=limits, A_eq=smooth if m > 1 else None,
        b_eq=np.zeros(m - 1) if m > 1 else None, bounds=[(0, 1)] * (2 * m) + [(0, None)],
    )  # fmt: skip
    assert result.success
    return float(result.fun)


@pytest.mark.slow(seconds=3)
def test_the_dip_is_that_of_a_linear_programme() -> None:
    rng = RNG(1)
    for trial in range(150):
        n = int(rng.integers(1, 13))
        values = (
            rng.random(n),
            rng.integers(0, 6, n) / 5,
            rng.normal(rng.choice([0, 1], n), 0.15),
        )[trial % 3]
        assert dip(values) == pytest.approx(dip_by_programme(values), abs=1e-9), values


def test_the_dip_in_closed_form() -> None:
    for n in (2, 3, 10, 101):
        assert dip(np.arange(n)) == pytest.approx(1 / (2 * n))
    assert dip([0.3]) == dip([0.3] * 9) == 0
    assert dip([0, 0, 1, 1]) == dip([0] * 7 + [1] * 7) == pytest.approx(0.25)
    # Two heaps, each of them spread evenly: the farther apart, the nearer to a quarter.
    heap = np.linspace(0, 1, 200)
    far, near = (dip(np.r_[heap, heap + gap]) for gap in (1000, 2))
    assert near < far < 0.25
    assert far == pytest.approx(0.25, abs=0.005)


def test_the_dip_is_blind_to_scale_shift_order_and_direction() -> None:
    values = RNG(2).normal(size=60)
    shuffled = RNG(3).permutation(values)
    assert dip(3 * values + 7) == pytest.approx(dip(values), abs=1e-12)
    assert dip(-values) == pytest.approx(dip(values), abs=1e-12)
    assert dip(shuffled) == dip(values)
    # The distribution function is the same where every number occurs three times.
    assert dip(np.repeat(values, 3)) == pytest.approx(dip(values), abs=1e-12)


#: Quantiles of the dip of uniform samples, from the table of R's package diptest (Maechler), which
#: was simulated with a million samples each.
PUBLISHED = {
    4: {0.95: 0.20727, 0.99: 0.23180},
    10: {0.5: 0.09778, 0.95: 0.13961, 0.99: 0.15968},
    50: {0.5: 0.04885, 0.95: 0.07027, 0.99: 0.08120},
    200: {0.5: 0.02558, 0.95: 0.03684, 0.99: 0.04269},
}


@pytest.mark.parametrize("n", PUBLISHED)
def test_uniform_samples_have_the_published_quantiles(n: int) -> None:
    drawn = uniform_dips(n, 20_000, 1)
    for level, published in PUBLISHED[n].items():
        share = (drawn <= published).mean()
        assert abs(share - level) < 4 * (level * (1 - level) / len(drawn)) ** 0.5, (n, level)


def test_p_is_uniform_for_uniform_samples() -> None:
    rng = RNG(4)
    p = [dip_p(dip(rng.random(30)), 30) for _ in range(500)]
    assert stats.kstest(p, "uniform").pvalue > 0.001


def test_p_by_its_definition() -> None:
    drawn = uniform_dips(12, 99, 0)
    assert dip_p(drawn[-1] + 0.001, 12, 99) == pytest.approx(1 / 100)
    assert dip_p(drawn[-1], 12, 99) == pytest.approx(2 / 100)
    assert dip_p(0.0, 12, 99) == 1
    assert uniform_dips(12, 99, 0) is drawn
    with pytest.raises(SettingsError, match="draws is 0"):
        dip_p(0.1, 12, 0)


def test_the_bimodality_coefficient_agrees_with_scipy() -> None:
    for seed in range(5):
        values = RNG(seed).gamma(2, size=20 + seed)
        n = len(values)
        skewness = stats.skew(values, bias=False)
        kurtosis = stats.kurtosis(values, bias=False)
        expected = (skewness**2 + 1) / (kurtosis + 3 * (n - 1) ** 2 / ((n - 2) * (n - 3)))
        assert bimodality_coefficient(values) == pytest.approx(expected, rel=1e-12)


def test_the_bimodality_coefficient_in_the_limit() -> None:
    assert bimodality_coefficient(np.linspace(0, 1, 20_001)) == pytest.approx(UNIFORM, abs=1e-3)
    normal = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    assert bimodality_coefficient(normal) == pytest.approx(1 / 3, abs=1e-3)
    assert bimodality_coefficient([0.0] * 5000 + [1.0] * 5000) == pytest.approx(1, abs=1e-3)


def test_one_heap_two_heaps_and_no_heap() -> None:
    rng = RNG(5)
    table = shapes(
        signatures(
            signature("one", rng.normal(0.6, 0.05, 60)),
            signature("two", np.where(rng.random(60) < 0.5, 0.4, 0.9) + rng.normal(0, 0.03, 60)),
            signature("step", np.repeat([0.4, 0.9], 30) + rng.normal(0, 0.03, 60)),
            signature("flat", [0.5] * 9),
            signature("three", [0.1, np.nan, 0.5, 0.9]),
            signature("single", [0.1]),
            signature("dead", [np.nan]),
        )
    ).set_index("model")
    assert table.loc["one", "dip_p"] > 0.1
    assert table.loc["two", "dip_p"] == pytest.approx(1 / 2000)
    # One step is one event, however many sites lie on either side of it.
    assert table.loc["step", "dip"] > 0.15
    assert table.loc["step", "dip_p"] > 0.01
    assert table["p_corrected"].notna().sum() == table["q"].notna().sum() == 3
    assert table.loc["one", "bimodality_coefficient"] < UNIFORM
    assert table.loc["two", "bimodality_coefficient"] > UNIFORM
    assert table["sites"].to_dict()["three"] == 3
    for name, words in (
        ("flat", "does not vary"),
        ("three", "3 sites, at least 4"),
        ("single", "1 site, at least 4"),
        ("dead", "no site"),
    ):
        row = table.loc[name]
        assert words in row["reason"]
        assert row[["bimodality_coefficient", "dip", "dip_p"]].isna().all()
    assert table.loc["flat", "std"] == 0
    assert math.isnan(table.loc["single", "std"])
    assert provenance_of(table).runs == 7
    assert shapes(signature("a", [0.5]).head(0)).empty


PLACES = np.linspace(0, 1, 2001)


def test_a_density_is_that_of_scipy_where_the_ends_are_far() -> None:
    values = RNG(3).normal(0.5, 0.02, 200)
    quartiles = np.quantile(values, [0.25, 0.75])
    spread = min(values.std(ddof=1), np.diff(quartiles)[0] / 1.34)
    width = 0.9 * spread * len(values) ** -0.2
    assert BANDWIDTHS[0] < width < BANDWIDTHS[1]
    theirs = stats.gaussian_kde(values, width / values.std(ddof=1))(PLACES)
    assert density(values, PLACES) == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("name", ["uniform", "at the ends", "equal", "two heaps", "half equal"])
def test_a_density_holds_all_of_itself_within_the_scale(name: str) -> None:
    rng = RNG(4)
    values = {
        "uniform": rng.random(500),
        "at the ends": np.array([0.0, 0.0, 1.0, 1.0, 0.99]),
        "equal": np.full(7, 0.3),
        "two heaps": np.concatenate((rng.normal(0.4, 0.03, 30), rng.normal(0.9, 0.01, 60))),
        "half equal": np.array([0.5, 0.5, 0.5, 0.5, 0.5, 0.6]),
    }[name]
    heights = density(values, PLACES)
    assert (heights >= 0).all()
    assert np.trapezoid(heights, PLACES) == pytest.approx(1.0, abs=2e-3)


def test_two_heaps_are_not_melted_into_one() -> None:
    rng = RNG(5)
    heaps = np.concatenate((rng.normal(0.65, 0.02, 30), rng.normal(0.93, 0.005, 15)))
    middle, first, second = density(heaps, [0.79, 0.65, 0.93])
    assert middle < 0.05 * min(first, second)


def test_rows_in_any_order_are_the_same_sites() -> None:
    runs = signatures(*(signature(name, RNG(6).random(40).cumsum() / 40) for name in "ba"))
    mixed = runs.sample(frac=1, random_state=0)
    mixed = pd.concat([mixed[mixed["run_id"] == name] for name in "ba"])
    mixed.attrs = runs.attrs
    expected, table = shapes(runs), shapes(mixed)
    assert expected["n_effective"].max() < 20
    pd.testing.assert_frame_equal(table, expected)
    assert table.attrs == expected.attrs
