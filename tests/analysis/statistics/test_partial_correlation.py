"""Partial correlations agree with another formula; their p-values hold where families are alike."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from analysis.statistics.clustered_permutations import permuted_by_group
from analysis.statistics.partial_correlation import partial_correlation
from analysis.statistics.permutations import permutation_p
from bench.partial_correlations import rejected

RNG = np.random.default_rng
NOTHING = np.empty((40, 0))


def by_precision(columns: np.ndarray) -> float:
    """Return the partial correlation of the first two columns from the inverse correlations."""
    inverse = np.linalg.inv(np.corrcoef(columns, rowvar=False))
    return float(-inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1]))


@pytest.mark.parametrize("others", [1, 2, 5])
def test_it_is_that_of_the_inverse_correlation_matrix(others: int) -> None:
    mixed = RNG(others).normal(size=(40, others + 2)) @ RNG(9).normal(size=(others + 2, others + 2))
    given = mixed[:, 2:] * 10.0 ** np.arange(others) + 1e4
    result = partial_correlation(mixed[:, 0], mixed[:, 1], given, range(40), 1, 0)
    assert result is not None
    assert result.pearson == pytest.approx(by_precision(mixed), abs=1e-9)
    ranks = stats.rankdata(np.column_stack([mixed[:, :2], given]), axis=0)
    assert result.spearman == pytest.approx(by_precision(ranks), abs=1e-9)
    half = stats.norm.ppf(0.975) / np.sqrt(40 - others - 3)
    ends = np.tanh(np.arctanh(result.pearson) + np.array([-half, half]))
    assert (result.low, result.high) == pytest.approx(ends)


def test_without_other_variables_it_is_the_plain_one_with_its_permutation_test() -> None:
    x, noise = RNG(1).normal(size=(2, 40))
    y = 0.4 * x + noise
    result = partial_correlation(x, y, NOTHING, range(40), 4999, 0)
    assert result is not None
    theirs = stats.pearsonr(x, y)
    assert result.pearson == pytest.approx(theirs.statistic, abs=1e-12)
    assert result.spearman == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)
    assert result.p == pytest.approx(theirs.pvalue, abs=0.02)


@pytest.mark.parametrize("slope", [0.5, -3.0])
def test_points_on_a_line_have_no_interval_but_their_coefficient(slope: float) -> None:
    x = np.array([6.0, 13.0, 19.0, 25.0, 31.0])
    result = partial_correlation(x, 1 + slope * x, np.empty((5, 0)), range(5), 9, 0)
    assert result is not None
    assert result.pearson == pytest.approx(np.sign(slope))
    assert result.low == result.high == result.pearson


def test_what_others_determine_has_no_partial_correlation() -> None:
    x, y = RNG(2).normal(size=(2, 40))
    given = np.column_stack([y, y, 3 * x - 2])
    assert partial_correlation(x, y, given, range(40), 9, 0) is None


def test_a_permutation_keeps_groups_together() -> None:
    values = RNG(3).normal(size=9)
    groups = np.array(list("aaabbbccc"))
    permuted = permuted_by_group(values, groups, 500, 0)
    assert not permuted.exact
    drawn = permuted.values
    means = [values[groups == each].mean() for each in "abc"]
    spread = [values[groups == each] - mean for each, mean in zip("abc", means, strict=True)]
    for row in drawn:
        placed = [row[groups == each] for each in "abc"]
        assert sorted(each.mean() for each in placed) == pytest.approx(sorted(means))
        for mine, left in zip(placed, spread, strict=True):
            assert sorted(mine - mine.mean()) == pytest.approx(sorted(left))
    assert len({tuple(row.round(9)) for row in drawn}) > 300


@pytest.mark.parametrize("groups", ["aaaa", "abcd"])
def test_few_numbers_of_one_group_or_each_of_its_own_take_all_orders(groups: str) -> None:
    values = RNG(4).normal(size=4)
    permuted = permuted_by_group(values, list(groups), 9, 0)
    assert permuted.exact
    orders = set(itertools.permutations(values))
    assert {tuple(row) for row in permuted.values} == orders
    assert len(permuted.values) == len(orders)
    assert not permuted_by_group(RNG(4).normal(size=9), range(9), 50, 0).exact


def test_a_p_value_of_drawn_permutations_is_never_zero() -> None:
    assert permutation_p(1.0, np.zeros(50), exact=False) == pytest.approx(1 / 51)
    all_but_rounded = np.r_[1.0 - 1e-15, np.zeros(23)]
    assert permutation_p(1.0, all_but_rounded, exact=True) == pytest.approx(1 / 24)


@pytest.mark.parametrize("sizes", [(5, 5, 5, 5, 5, 5), (1, 1, 2, 3, 4, 6, 9)])
def test_alike_families_are_no_independent_networks(sizes: tuple[int, ...]) -> None:
    """Families differ in both, and architectures of one hardly: nothing relates the two."""
    families, tries = np.repeat(np.arange(len(sizes)), sizes), 300
    rng, n = RNG(7), sum(sizes)
    shuffled = np.array([RNG(seed).permutation(n) for seed in range(199)])
    clustered, alone = 0, 0
    for _ in range(tries):
        x, y = (rng.normal(size=len(sizes))[families] + 0.2 * rng.normal(size=n) for _ in range(2))
        result = partial_correlation(x, y, np.empty((n, 0)), families, 199, 0)
        assert result is not None
        moved = np.abs(stats.zscore(y)[shuffled] @ stats.zscore(x)) / n
        clustered += result.p <= 0.05
        alone += permutation_p(abs(result.pearson), moved, exact=False) <= 0.05
    assert clustered / tries < 0.10
    assert alone / tries > 0.2


@pytest.mark.parametrize("families", [4, 6])
def test_others_that_differ_by_family_make_no_chance_a_finding(families: int) -> None:
    """With what the fit leaves of families as it is, p is at most 0.05 in 0.11 to 0.12 of these."""
    assert rejected(families, 4, 600, 99) <= 0.095


def test_one_number_a_group_or_one_group_is_permuted_as_it_is_left() -> None:
    columns = RNG(6).normal(size=(6, 3))
    x, y, given = columns[:, 0], columns[:, 1], columns[:, 2:]
    centred = np.column_stack([np.ones(6), given])
    fit = centred @ np.linalg.pinv(centred)
    left = y - fit @ y
    orders = np.array(list(itertools.permutations(left)))
    moved = orders - orders @ fit.T
    sizes = np.abs(moved @ (x - fit @ x)) / np.linalg.norm(moved, axis=1)
    expected = np.mean(sizes >= sizes[0] - 1e-9)
    for groups in (range(6), [0] * 6):
        result = partial_correlation(x, y, given, groups, 9, 0)
        assert result is not None
        assert result.p == pytest.approx(expected)
