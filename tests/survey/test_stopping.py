"""The standard error over batches, and when it is enough."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from scipy.stats import beta
from torch import nn

from survey import InputError, MeasureSettings, SettingsError, measure_batches
from survey.settings import FEWEST_BATCHES
from survey.stopping import Spread, interval_factor


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


def surveyed(sites: int, skewed: bool, noisy: float, rng: np.random.Generator) -> np.ndarray:
    """Return scores of batches less their true mean, sites of one batch moving together.

    Deviations are at most 1, those of the first site; of the others at most 1 / ``noisy``. Skewed
    scores are those of a site near 1 (beta distributed, skewness -0.7).
    """
    together, alone = rng.normal(size=(LAST, 1)), rng.normal(size=(LAST, sites))
    drawn = 0.3**0.5 * together + 0.7**0.5 * alone
    if skewed:
        near_one = beta(30, 4)
        places = np.linspace(0, 1, 1001)
        drawn = np.interp(ndtr(drawn), places, near_one.ppf(places))
        drawn = (drawn - near_one.mean()) / near_one.std()
    return drawn * np.r_[1.0, np.linspace(1, 0.3, sites - 1) / noisy]


def coverage(
    sites: int, draws: int, *, precision: float, skewed: bool = False, noisy: float = 1.0
) -> tuple[float, float]:
    """Return how often the intervals of all sites hold, and those of the first."""
    settings, rng = MeasureSettings(precision=precision, least_batches=2), np.random.default_rng(1)
    held = []
    for _ in range(draws):
        scores, spread = surveyed(sites, skewed, noisy, rng), Spread()
        for batch in scores:
            spread.add(enumerate(batch))
            if spread.reaches(settings):
                break
        seen = scores[: spread.batches]
        error = seen.std(axis=0, ddof=1) / spread.batches**0.5
        if spread.batches < LAST:
            assert error.max() <= precision * (1 + 1e-9)
        held.append(np.abs(seen.mean(axis=0)) <= interval_factor(spread.batches) * error)
    return float(np.mean(held)), float(np.mean(held, axis=0)[0])


def test_the_interval_is_students():
    assert interval_factor(2) == pytest.approx(12.7062, rel=1e-5)
    assert interval_factor(10**6) == pytest.approx(1.95996, rel=1e-5)
    assert interval_factor(FEWEST_BATCHES) < 2.3


def test_stopping_early_leaves_intervals_true():
    """One site much noisier than the others decides alone; two batches were allowed."""
    every, first = coverage(10, 250, precision=0.3, noisy=3)
    assert 0.93 <= every <= 0.97
    assert 0.92 <= first <= 0.98


@pytest.mark.long
@pytest.mark.slow(seconds=20)
@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize(("sites", "draws"), [(10, 600), (50, 200), (150, 80)])
def test_the_promise_of_a_precision_holds(sites, draws, skewed):
    for precision in (0.5, 0.3, 0.2):
        every, _ = coverage(sites, draws, precision=precision, skewed=skewed)
        assert 0.93 <= every <= 0.97
