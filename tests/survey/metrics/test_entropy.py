"""The entropy equals numpy's histogram, row by row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from survey.metrics.base import NoValue
from survey.metrics.entropy import histogram_entropy
from tests.survey.metrics.pairs import coloured, get, why_not


def slow_entropy(matrix: torch.Tensor) -> float:
    """Evaluate H + log c of each row's histogram in c bins, and average over rows."""
    result = []
    for row in matrix.numpy():
        counts, _ = np.histogram(row, bins=len(row))
        shares = counts[counts > 0] / len(row)
        result.append(-(shares * np.log(shares)).sum() + np.log(len(row)))
    return float(np.mean(result))


@given(n=st.integers(2, 20), c=st.integers(1, 60), seed=st.integers(0, 10**6), dead=st.booleans())
def test_it_equals_numpys_histogram(n: int, c: int, seed: int, dead: bool) -> None:
    x = coloured(n, c, seed)
    x = x.relu() if dead else x
    assert histogram_entropy(x) == pytest.approx(slow_entropy(x), abs=1e-12)


def test_before_after_and_change() -> None:
    x = coloured(30, 40)
    before, after = slow_entropy(x), slow_entropy(x.relu())
    assert get("entropy_before", x, x.relu()) == pytest.approx(before, abs=1e-12)
    assert get("entropy_after", x, x.relu()) == pytest.approx(after, abs=1e-12)
    assert get("entropy_change", x, x.relu()) == pytest.approx(after - before, abs=1e-12)


def test_a_range_that_double_precision_cannot_divide_has_no_entropy() -> None:
    x = coloured(5, 4)
    for wrong in (1e308 * x.sign() * 1.5, 1e-310 * x):
        assert isinstance(histogram_entropy(wrong), NoValue)
        assert "range" in why_not("entropy_change", x, wrong)
        assert "range" in why_not("entropy_change", wrong, x)
