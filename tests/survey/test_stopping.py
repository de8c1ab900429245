"""The standard error over batches, and when it is enough."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from scipy.stats import beta, expon, norm, skew
from scipy.stats import t as student
from torch import nn

from survey import InputError, MeasureSettings, SettingsError, measure_batches
from survey.settings import FEWEST_BATCHES
from survey.stopping import Spread, mean_interval


def test_the_standard_error_is_numpys():
    scores = np.random.default_rng(0).uniform(size=(6, 4))
    spread = Spread()
    for batch in scores:
        spread.add(enumerate(batch))
    expected = scores.std(axis=0, ddof=1).max() / np.sqrt(6)
    assert spread.standard_error == pytest.approx(expected, rel=1e-12)


def test_one_score_tells_no_error():
    spread = Spread()
    assert spread.standard_error is None
    spread.add([(0, 0.5), (1, None)])
    assert spread.standard_error is None
    spread.add([(0, 0.7), (1, float("nan"))])
    assert spread.standard_error == pytest.approx(0.1)
    spread.add([(0, 0.6), (1, 0.3)])
    assert spread.standard_error is None


def test_a_precision_needs_its_batches():
    for least, first in ((2, FEWEST_BATCHES), (12, 12)):
        settings, spread = MeasureSettings(precision=0.1, least_batches=least), Spread()
        for number in range(1, 15):
            spread.add([(0, 0.5)])
            assert spread.reaches(settings) is (number >= first)
        assert not spread.reaches(MeasureSettings())


def test_a_precision_is_a_fraction(subtests):
    for value in [0, 1, -0.1, float("nan"), True, "0.1"]:
        with subtests.test(value=value), pytest.raises(SettingsError, match="precision is"):
            MeasureSettings(precision=value)


def test_a_precision_takes_two_batches_at_least():
    with pytest.raises(SettingsError, match="least_batches is 1"):
        MeasureSettings(precision=0.1, least_batches=1)


def test_measuring_ends_at_the_precision_and_reads_no_further():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    images = (torch.randn(16, 5) for _ in itertools.count())
    settings = MeasureSettings(images_per_score=32, micro_batch=16, precision=0.01)
    spread = Spread()
    batches = list(measure_batches(model, images, settings, spread=spread))
    assert len(batches) >= FEWEST_BATCHES
    assert spread.standard_error <= 0.01
    scores = [batch.scores[0].affinity for batch in batches]
    errors = [
        np.std(scores[:k], ddof=1) / np.sqrt(k) for k in range(FEWEST_BATCHES, len(scores) + 1)
    ]
    assert [error <= 0.01 for error in errors] == [False] * (len(errors) - 1) + [True]
    # What has reached it is not measured further, however much there is.
    assert list(measure_batches(model, images, settings, first_batch=4, spread=spread)) == []


def test_images_may_end_before_the_precision():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU())
    settings = MeasureSettings(images_per_score=32, precision=1e-9, least_batches=2)
    assert len(list(measure_batches(model, [torch.randn(100, 5)], settings))) == 4
    with pytest.raises(InputError):
        list(measure_batches(model, [torch.randn(8, 5)], settings))


#: A survey's images end after so many batches.
LAST = 150


#: Distributions of scores; of a site near 1 the skewness is -0.7.
DRAWN = {"normal": norm(), "near one": beta(30, 4), "exponential": expon()}


def surveyed(sites: int, scores: str, noisy: float, rng: np.random.Generator) -> np.ndarray:
    """Return scores of batches less their true mean, sites of one batch moving together.

    Deviations are at most 1, those of the first site; of the others at most 1 / ``noisy``.
    """
    together, alone = rng.normal(size=(LAST, 1)), rng.normal(size=(LAST, sites))
    drawn = 0.3**0.5 * together + 0.7**0.5 * alone
    if scores != "normal":
        of = DRAWN[scores]
        places = np.linspace(0, 1, 1001)[1:-1]
        drawn = np.interp(ndtr(drawn), places, of.ppf(places))
        drawn = (drawn - of.mean()) / of.std()
    return drawn * np.r_[1.0, np.linspace(1, 0.3, sites - 1) / noisy]


def coverage(
    sites: int, draws: int, *, precision: float, scores: str = "normal", noisy: float = 1.0
) -> tuple[float, float]:
    """Return how often the intervals of all sites hold, and those of the first."""
    settings, rng = MeasureSettings(precision=precision, least_batches=2), np.random.default_rng(1)
    held = []
    for _ in range(draws):
        drawn, spread = surveyed(sites, scores, noisy, rng), Spread()
        for batch in drawn:
            spread.add(enumerate(batch))
            if spread.reaches(settings):
                break
        seen = drawn[: spread.batches]
        if spread.batches < LAST:
            assert spread.standard_error <= precision
        held.append([low <= 0 <= high for low, high in map(mean_interval, seen.T)])
    return float(np.mean(held)), float(np.mean(held, axis=0)[0])


def test_the_interval_is_students_where_scores_are_symmetric():
    scores = 0.5 + np.array([-0.2, -0.1, 0.0, 0.1, 0.2])
    half = student.ppf(0.975, 4) * scores.std(ddof=1) / 5**0.5
    assert mean_interval(scores) == pytest.approx((0.5 - half, 0.5 + half))
    assert mean_interval([0.4, 0.6]) == pytest.approx((0.5 - 1.27062, 0.5 + 1.27062), rel=1e-5)
    assert mean_interval([0.7] * 12) == pytest.approx((0.7, 0.7))


def test_the_interval_of_skewed_scores_is_halls():
    """Its ends are where his transformation of Student's ratio is plus and minus the quantile."""
    scores = np.random.default_rng(2).exponential(size=12)
    low, high = mean_interval(scores)
    bend = float(skew(scores, bias=False)) / 12**0.5
    error, quantile = scores.std(ddof=1) / 12**0.5, student.ppf(0.975, 11)
    for end, expected in ((low, quantile), (high, -quantile)):
        ratio = (scores.mean() - end) / error
        there = ratio + bend * ratio**2 / 3 + bend**2 * ratio**3 / 27 + bend / 6
        assert there == pytest.approx(expected)
    assert high - scores.mean() > 1.3 * (scores.mean() - low)
    assert mean_interval(-scores) == pytest.approx((-high, -low))


@pytest.mark.parametrize("scores", ["normal", "exponential"])
def test_stopping_early_leaves_the_interval_of_a_single_site_true(scores):
    """Student's interval holds in 0.90 of the exponential ones."""
    every, _ = coverage(1, 400, precision=0.3, scores=scores)
    assert 0.93 <= every <= 0.975


def test_stopping_early_leaves_intervals_true():
    """One site much noisier than the others decides alone; two batches were allowed."""
    every, _ = coverage(10, 60, precision=0.3, noisy=3)
    assert 0.93 <= every <= 0.98


@pytest.mark.long
@pytest.mark.slow(seconds=20)
@pytest.mark.parametrize("scores", DRAWN)
@pytest.mark.parametrize(("sites", "draws"), [(1, 2000), (10, 300), (50, 60), (150, 20)])
def test_the_promise_of_a_precision_holds(sites, draws, scores):
    for precision in (0.5, 0.3, 0.2):
        every, _ = coverage(sites, draws, precision=precision, scores=scores)
        # Promised are 0.93 to 0.97; of 2,000 intervals chance moves the share by 0.005.
        assert 0.925 <= every <= 0.975, precision
