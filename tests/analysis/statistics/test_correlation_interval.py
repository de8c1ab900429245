"""Intervals of correlations hold the truth, whatever the two series' autocorrelations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from analysis.statistics.correlation_interval import correlation_interval
from bench.correlations import KINDS, SITES, possible, trial

RNG = np.random.default_rng


@pytest.mark.parametrize("n", [49, 150])
def test_independent_values_have_nearly_fishers_interval(n: int) -> None:
    ratios = []
    for seed in range(10):
        x, noise = RNG(seed).normal(size=(2, n))
        y = 0.7 * x + 0.7 * noise
        theirs = stats.pearsonr(x, y).confidence_interval(0.95)
        ours, fishers = np.diff(np.arctanh([correlation_interval(x, y), theirs]), axis=1).ravel()
        ratios.append(ours / fishers)
    # That they might depend on each other widens the interval.
    assert 1 < np.mean(ratios) < 1.5


def test_scale_shift_sign_and_order_change_nothing() -> None:
    x = RNG(1).normal(size=60).cumsum()
    y = x + 2 * RNG(2).normal(size=60)
    interval = correlation_interval(x, y)
    assert correlation_interval(1e-9 * x + 3e-3, 1e5 + 7 * y) == pytest.approx(interval, rel=1e-5)
    # But for the points that are drawn.
    for same in (correlation_interval(y, x), correlation_interval(x[::-1], y[::-1])):
        assert same == pytest.approx(interval, abs=0.02)
    low, high = correlation_interval(x, -y)
    assert (-high, -low) == pytest.approx(interval, abs=0.02)


def test_a_persistent_series_widens_the_side_that_its_sample_hides() -> None:
    """Where x has hardly moved yet, r of the process is larger than that of the sample."""
    x = np.linspace(0, 1, 49) + 0.05 * RNG(3).normal(size=49)
    y = x + 0.3 * RNG(4).normal(size=49)
    low, high = np.arctanh(correlation_interval(x, y))
    r = np.arctanh(np.corrcoef(x, y)[0, 1])
    assert high - r > 1.5 * (r - low)


@pytest.mark.parametrize("n", [4, 5, 7])
def test_short_and_exactly_related_series_have_intervals(n: int) -> None:
    x = RNG(n).random(n)
    assert correlation_interval(x, 3 - 2 * x) == pytest.approx((-1, -1))
    for y in (x + 1e-5 * RNG(1).random(n), np.arange(n) + 0.1 * x, RNG(2).random(n)):
        low, high = correlation_interval(x, y)
        assert -1 <= low <= np.corrcoef(x, y)[0, 1] <= high <= 1
        assert low < high


@pytest.mark.parametrize("lags", [[(0.9,), (0.0,)], [(0.0,), (0.9,)]])
def test_intervals_of_unlike_series_hold(lags) -> None:
    """Fisher's with an effective size held in 0.86 of these."""
    _, held, _ = trial("regression", lags, 0.8, 49, 200)
    assert held >= 0.93


def test_intervals_of_three_unlike_series_hold() -> None:
    """Those of two sources alone held in 0.89 of these."""
    _, held, _ = trial("shared", [(0.6,), (0.9,), (-0.6,)], 0.6, 150, 150)
    assert held >= 0.93


@pytest.mark.long
@pytest.mark.slow(seconds=450)
@pytest.mark.parametrize("n", SITES)
@pytest.mark.parametrize(("kind", "lags"), KINDS, ids=str)
def test_intervals_hold_from_alternation_to_persistence(kind, lags, n: int) -> None:
    # Of 500 with a coverage of 0.95, chance makes 0.925 once in 100 times.
    for truth in possible(kind, lags):
        assert trial(kind, lags, truth, n, 500)[1] >= 0.925, truth
