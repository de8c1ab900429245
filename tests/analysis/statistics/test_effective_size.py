"""Effective sizes make tests and intervals of dependent sites hold their level."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.signal import lfilter

from analysis.statistics.dip import dip, dip_p
from analysis.statistics.effective_size import (
    Persistence,
    effective_size,
    effective_sizes,
)
from analysis.statistics.pearson import correlation_p, fisher_interval, pearson

RNG = np.random.default_rng

#: Steps after which an autoregression has forgotten its start.
FORGOTTEN = 300

#: Lag correlations of a series: of order 1, and with 0 at lag 1 and most at lag 2.
LAGS = [(-0.6,), (0.0,), (0.3,), (0.6,), (0.8,), (0.9,), (0.0, 0.95)]


def series(coefficients: tuple[float, ...], n: int, rng: np.random.Generator) -> np.ndarray:
    """Return an autoregression of unit variance, n values of it."""
    filters = [1.0, *(-each for each in coefficients)]
    response = lfilter([1.0], filters, np.eye(1, 4000)[0])
    drawn = lfilter([1.0], filters, rng.normal(size=n + FORGOTTEN))[FORGOTTEN:]
    return drawn / np.linalg.norm(response)


def trial(
    first: tuple[float, ...], rest: tuple[float, ...], truth: float, n: int, draws: int
) -> tuple[float, float]:
    """Return how often the test rejects and the interval holds, y = truth x + noise."""
    rng, rejected, held = RNG(n), 0, 0
    for _ in range(draws):
        x, noise = series(first, n, rng), series(rest, n, rng)
        y = truth * x + (1 - truth**2) ** 0.5 * noise
        r = pearson(x, y)
        tested, around = effective_sizes(x, y, r)
        low, high = fisher_interval(r, around)
        rejected += correlation_p(r, tested) < 0.05
        held += low <= truth <= high
    return rejected / draws, held / draws


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
    r = pearson(x, y)
    sizes = effective_sizes(x, y, r)
    assert effective_sizes(y, x, r) == pytest.approx(sizes)
    assert effective_sizes(1e-9 * x + 3e-3, 1e5 - 7 * y, -r) == pytest.approx(sizes, rel=1e-6)
    assert effective_sizes(x[::-1], y[::-1], r) == pytest.approx(sizes)
    assert effective_size(x) == pytest.approx(effective_size(-x))


def test_sizes_lie_between_two_and_n_and_fall_with_persistence() -> None:
    rng = RNG(3)
    noise = rng.normal(size=49)
    walk, turns = noise.cumsum(), np.resize([0.0, 1.0], 49) + 0.1 * noise
    assert 40 < effective_size(noise) <= 49
    for each in (walk, turns):
        assert 2 < effective_size(each) < 10
        assert 2 < effective_sizes(each, each + 0.1 * rng.normal(size=49), 0.9)[1] < 12
    assert effective_sizes(noise, rng.permutation(noise), 0.1)[0] > 45


@pytest.mark.parametrize("n", [4, 5, 7])
def test_short_and_exactly_related_series_have_sizes(n: int) -> None:
    x = RNG(n).random(n)
    for r, y in ((0.999999, x), (0.5, np.arange(n) + 0.1 * x)):
        assert all(2 <= size <= n for size in effective_sizes(x, y, r))


@pytest.mark.parametrize(("first", "rest"), [((0.8,), (0.8,)), ((0.0, 0.9), (0.0, 0.9))])
def test_dependent_sites_reject_no_more_than_they_should(first, rest) -> None:
    """Taken as independent, they reject in 0.3 and more."""
    rejected, held = trial(first, rest, 0.0, 49, 250)
    assert rejected <= 0.08
    assert held >= 0.93


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
@pytest.mark.slow(seconds=45)
@pytest.mark.parametrize("n", [49, 150])
@pytest.mark.parametrize("lags", LAGS, ids=str)
def test_level_and_coverage_from_alternation_to_persistence(lags, n: int) -> None:
    for truth in (0.0, 0.3, 0.6, 0.8):
        rejected, held = trial(lags, lags, truth, n, 300)
        assert held >= 0.93, truth
        if truth == 0:
            assert rejected <= 0.08


@pytest.mark.long
@pytest.mark.slow(seconds=10)
@pytest.mark.parametrize("n", [49, 150])
@pytest.mark.parametrize("other", [(-0.6,), (0.0,), (0.6,)], ids=str)
def test_the_level_holds_for_unlike_series(other, n: int) -> None:
    rejected, held = trial((0.9,), other, 0.0, n, 300)
    assert rejected <= 0.08
    assert held >= 0.93
