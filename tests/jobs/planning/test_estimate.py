"""Estimates: history first, then arithmetic, with an honest range."""

import pytest

from jobs.planning.estimate import (
    DEFAULT_SECONDS,
    FROM_DEFAULT,
    FROM_HISTORY,
    FROM_RATE,
    Amount,
    History,
    Measured,
    amount_of,
    estimate,
)
from tests.jobs.jobs import job

RESNET = Measured("torchvision:resnet18", 1.8, 512, 20.0)


def test_history_of_the_same_architecture_scales_with_images():
    guess = estimate("torchvision:resnet18", Amount(1024, 1.8), History([RESNET]))
    assert guess.seconds == 40.0
    assert guess.factor == FROM_HISTORY


def test_other_architectures_give_a_rate():
    guess = estimate("torchvision:resnet50", Amount(512, 3.6), History([RESNET]))
    assert guess.seconds == pytest.approx(40.0)
    assert guess.factor == FROM_RATE


def test_forward_passes_and_scores_are_told_apart():
    """Small networks, whose time goes into scores, say nothing of how long large ones run."""
    runs = [
        Measured("a", 0.01, 1000, 0.02 * 10 + 0.05 * 40, scores=40),
        Measured("b", 0.02, 1000, 0.02 * 20 + 0.05 * 100, scores=100),
        Measured("c", 4.0, 1000, 0.02 * 4000 + 0.05 * 90, scores=90),
    ]
    assert History(runs).unit_seconds == pytest.approx((0.02, 0.05))
    guess = estimate("d", Amount(2000, 2.0, 50), History(runs))
    assert guess.seconds == pytest.approx(0.02 * 4000 + 0.05 * 50)
    # Of small ones alone, no seconds below 0.
    small = History([Measured("a", 0.01, 1000, 2.0, scores=40)])
    assert small.unit_seconds is not None
    assert min(small.unit_seconds) >= 0


def test_without_history_the_range_is_wide():
    a_gflop, a_score = DEFAULT_SECONDS
    guess = estimate("torchvision:resnet50", Amount(100, 4.0, 49), History())
    assert guess.seconds == pytest.approx(400 * a_gflop + 49 * a_score)
    assert guess.factor == FROM_DEFAULT


def test_runs_that_say_nothing_are_left_out():
    nothing = History([Measured("a", 1.0, 0, 0.0), Measured("b", 0.0, 10, 5.0)])
    assert estimate("c", Amount(10, 1.0), nothing).factor == FROM_DEFAULT


def test_the_bundled_networks_are_counted():
    """Not taken for networks of ordinary size, which take a hundred times as long."""
    one = job()
    amount = amount_of(one, {})
    assert amount.gflops < 0.02
    assert amount.scores == 8 * one.images // one.settings.images_per_score
