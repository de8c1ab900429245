"""A trend is one where neither chance nor rounding may have made it."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest

from analysis.relations.network_depth import depths, depths_finding
from analysis.relations.timeline import timeline, timeline_finding
from analysis.statistics.trend import Trend
from tests.analysis.made import signature, signatures


def test_p_is_the_share_of_orders_that_are_as_far_from_none() -> None:
    years, values = [1, 2, 3, 4, 5], [0.1, 0.4, 0.2, 0.6, 0.8]

    def tau(order: tuple[float, ...]) -> float:
        pairs = [(i, j) for i in range(5) for j in range(i)]
        return sum(np.sign(order[i] - order[j]) for i, j in pairs) / len(pairs)

    every = [abs(tau(order)) for order in permutations(values)]
    trend = Trend.of(years, values)
    assert trend.tau == pytest.approx(tau(tuple(values)))
    assert trend.p == pytest.approx(np.mean([each >= abs(trend.tau) - 1e-9 for each in every]))
    assert Trend.of(years, values, tests=4).p == pytest.approx(min(1, 4 * trend.p))


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
