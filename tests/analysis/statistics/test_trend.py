"""A trend is one where neither chance nor rounding may have made it."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from analysis.relations.network_depth import depths, depths_finding
from analysis.relations.timeline import timeline, timeline_finding
from analysis.statistics.trend import Trend
from tests.analysis.made import signature, signatures


def test_p_is_the_share_of_orders_that_are_as_far_from_none() -> None:
    years, values = [1, 2, 3, 4, 5], [0.1, 0.4, 0.2, 0.6, 0.8]

    every = [abs(stats.spearmanr(years, order).statistic) for order in permutations(values)]
    trend = Trend.of(years, values)
    assert trend.rho == pytest.approx(stats.spearmanr(years, values).statistic)
    assert trend.p == pytest.approx(np.mean([each >= abs(trend.rho) - 1e-9 for each in every]))
    assert Trend.of(years, values, tests=4).p == pytest.approx(min(1, 4 * trend.p))


@pytest.mark.parametrize(
    ("years", "p"), [([2014] * 3 + [2015] * 3, 0.1), ([2014, 2014, 2015, 2015, 2016], 1 / 15)]
)
def test_equal_years_leave_few_orders(years: list[int], p: float) -> None:
    assert Trend.of(years, range(len(years))).p == pytest.approx(p)


@pytest.mark.parametrize("sizes", [(4,) * 5, (4,) * 8, (9, 3, 1, 1, 2, 4)])
def test_alike_families_are_no_independent_architectures(sizes: tuple[int, ...]) -> None:
    """Each family has one year, and its architectures are alike: nothing changes with the years."""
    rng, tries = np.random.default_rng(2), 300
    family = np.repeat(np.arange(len(sizes)), sizes)
    beyond = 0
    for _ in range(tries):
        medians = rng.normal(0, 0.05, len(sizes))[family] + rng.normal(0, 0.02, len(family))
        beyond += Trend.of(2012 + family, medians, family).p <= 0.05
    assert beyond / tries <= 0.08


@pytest.mark.parametrize("n", [0, 1, 2, 4])
def test_few_models_show_no_trend(n: int) -> None:
    trend = Trend.of(range(n), range(n))
    assert trend.verb(0.0, 1.0) is None
    assert Trend.of([1, 2, 3], [0.5, 0.5, 0.5]).verb(0.5, 0.5) is None


def test_a_trend_has_a_direction_and_prints_a_difference() -> None:
    trend = Trend.of(range(6), range(6))
    assert trend.p <= 0.05
    assert trend.verb(0.5, 0.6) == "rises"
    assert trend.verb(0.601, 0.603) is None
    assert trend.verb(0.6, 0.5) is None
    assert Trend.of(range(6), range(6, 0, -1)).verb(0.6, 0.5) == "falls"
    assert math.isnan(Trend.of([1.0], [2.0]).p)
    assert Trend.of([1, 2, 3], [0.1, math.nan, 0.3]).verb(0.1, 0.3) is None
    # Nine networks show one as the clearest of many families.
    assert Trend.of(range(9), range(9), tests=101).verb(0.5, 0.6) == "rises"


def networks(step: float, count: int = 6, **values: object) -> list[str]:
    """Return the findings on a family whose median moves by a step from network to network."""
    runs = [
        signature(f"n{i}", [0.5 + step * i] * (4 + i), year=2012 + i, **values)
        for i in range(count)
    ]
    made = signatures(*runs)
    return [timeline_finding(timeline(made)), depths_finding(depths(made))]


def test_a_finding_states_an_effect_or_that_there_is_none() -> None:
    for sentence in networks(0.05):
        assert "rises from 0.50" in sentence
    for sentence in networks(-0.05):
        assert "falls from 0.50" in sentence
    # Beyond chance, but the printed numbers are the same.
    for sentence in (*networks(0.0005), *networks(0.05, count=3)):
        assert "no trend" in sentence
        assert "rises" not in sentence


def test_weights_of_one_architecture_are_one_model_of_a_trend() -> None:
    assert "no trend" in timeline_finding(
        timeline(
            signatures(
                *(
                    signature(f"{name}{seed}", [level] * 4, architecture=name, year=year)
                    for name, level, year in (("a", 0.3, 2012), ("b", 0.6, 2015))
                    for seed in range(9)
                )
            )
        )
    )
