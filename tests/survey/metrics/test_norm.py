"""The norm and its two comparable versions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.survey.metrics.pairs import coloured, get


@pytest.mark.parametrize(("n", "c"), [(30, 4), (4, 30), (2, 1)])
def test_the_norms_equal_their_definitions(n: int, c: int) -> None:
    x = coloured(n, c)
    y = torch.tanh(x)
    expected = float(np.sqrt(((x - y).numpy() ** 2).sum()))
    assert get("norm", x, y) == pytest.approx(expected, rel=1e-12)
    assert get("norm_per_element", x, y) == pytest.approx(expected / math.sqrt(n * c), rel=1e-12)
    input_norm = float(np.sqrt((x.numpy() ** 2).sum()))
    assert get("norm_relative", x, y) == pytest.approx(expected / input_norm, rel=1e-12)


def test_repeating_the_images_moves_only_the_published_norm() -> None:
    x = coloured(20, 5)
    twice = x.repeat(2, 1)
    assert get("norm", twice, twice.relu()) == pytest.approx(
        math.sqrt(2) * get("norm", x, x.relu())
    )
    for column in ("norm_per_element", "norm_relative"):
        assert get(column, twice, twice.relu()) == pytest.approx(get(column, x, x.relu()))


def test_an_almost_dead_output_is_as_far_as_the_input_is_long() -> None:
    x = coloured(20, 5)
    assert get("norm_relative", x, 1e-9 * x) == pytest.approx(1)
