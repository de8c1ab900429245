"""Effective sizes make tests of dependent sites hold their level."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import toeplitz

from analysis.statistics.dip import dip, dip_p
from analysis.statistics.effective_size import (
    Persistence,
    effective_pairs,
    effective_size,
)
from bench.correlations import LAGS, SITES, series, trial

RNG = np.random.default_rng


def test_the_variance_is_that_of_the_matrices() -> None:
    one, other = 0.7 ** np.arange(9), (-0.5) ** np.arange(9)
    centring = np.eye(9) - 1 / 9
    expected = np.trace(centring @ toeplitz(one) @ centring @ toeplitz(other))
    assert Persistence(one, 0.0).variance_with(Persistence(other, 0.0)) == pytest.approx(expected)


def test_the_variance_is_that_of_correlations() -> None:
    """Known autocorrelations: the spread of r over many pairs of independent series."""
    rng, n = RNG(1), 30
    matrices = [toeplitz(each ** np.arange(n)) for each in (0.6, 0.5)]
    x, y = (rng.multivariate_normal(np.zeros(n), each, 20_000) for each in matrices)
    x, y = (each - each.mean(axis=1, keepdims=True) for each in (x, y))
    r = (x * y).sum(axis=1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)
    one, other = (
        Persistence(each[0] / (n - each.sum() / n), 0.0) for each in matrices
    )  # the trace of a centred matrix
    assert one.variance_with(other) == pytest.approx(r.var(), rel=0.1)


def test_scale_shift_sign_and_direction_change_nothing() -> None:
    x, y = RNG(2).random((2, 40)).cumsum(axis=1)
    size = effective_pairs(x, y)
    assert effective_pairs(y, x) == pytest.approx(size)
    assert effective_pairs(1e-9 * x + 3e-3, 1e5 - 7 * y) == pytest.approx(size, rel=1e-6)
    assert effective_pairs(x[::-1], y[::-1]) == pytest.approx(size)
    assert effective_size(x) == pytest.approx(effective_size(-x))


def test_sizes_lie_between_two_and_n_and_fall_with_persistence() -> None:
    rng = RNG(3)
    noise = rng.normal(size=49)
    walk, turns = noise.cumsum(), np.resize([0.0, 1.0], 49) + 0.1 * noise
    assert 40 < effective_size(noise) <= 49
    for each in (walk, turns):
        assert 2 < effective_size(each) < 10
        assert 2 < effective_pairs(each, each + 0.1 * rng.normal(size=49)) < 12
    assert effective_pairs(noise, rng.permutation(noise)) > 45


@pytest.mark.parametrize("n", [4, 5, 7])
def test_short_and_exactly_related_series_have_sizes(n: int) -> None:
    x = RNG(n).random(n)
    for y in (x, np.arange(n) + 0.1 * x):
        assert 2 <= effective_pairs(x, y) <= n


@pytest.mark.parametrize("lags", [(0.8,), (0.0, 0.9)])
def test_dependent_sites_reject_no_more_than_they_should(lags) -> None:
    """Taken as independent, they reject in 0.3 and more."""
    rejected, _, _ = trial("regression", [lags, lags], 0.0, 49, 250)
    assert rejected <= 0.08


def test_two_heaps_are_not_seen_in_dependent_sites() -> None:
    rng = RNG(4)
    seen = [0, 0]
    for _ in range(150):
        x = series((0.0, 0.95), 49, rng)
        sizes = 49, max(int(effective_size(x)), 4)
        for place, size in enumerate(sizes):
            seen[place] += dip_p(dip(x), size, 499) <= 0.05
    assert seen[1] <= 0.08 * 150 < seen[0]


@pytest.mark.long
@pytest.mark.slow(seconds=10)
@pytest.mark.parametrize("n", SITES)
@pytest.mark.parametrize("other", LAGS, ids=str)
def test_the_level_holds_from_alternation_to_persistence(other, n: int) -> None:
    for lags in ([other, other], [(0.9,), other]):
        rejected, _, _ = trial("regression", lags, 0.0, n, 300)
        assert rejected <= 0.08, lags
