"""The standard error over batches, and when it is enough."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from survey import InputError, MeasureSettings, SettingsError, measure_batches
from survey.stopping import Spread


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
    settings = MeasureSettings(precision=0.1, least_batches=3)
    spread = Spread()
    for reached in (False, False, True):
        spread.add([(0, 0.5)])
        assert spread.reaches(settings) is reached
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
    settings = MeasureSettings(images_per_score=32, micro_batch=16, precision=0.01, least_batches=4)
    spread = Spread()
    batches = list(measure_batches(model, images, settings, spread=spread))
    assert len(batches) >= 4
    assert spread.standard_error <= 0.01
    scores = [batch.scores[0].affinity for batch in batches]
    errors = [np.std(scores[:k], ddof=1) / np.sqrt(k) for k in range(4, len(scores) + 1)]
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
