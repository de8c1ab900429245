"""Effective rank, stable rank and participation ratio against spectra that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from tests.survey.metrics.pairs import coloured, get, normal, why_not

NAMES = ("effective_rank", "stable_rank", "participation_ratio")


def with_spectrum(lengths: list[float], n: int = 200) -> torch.Tensor:
    """Return a matrix, n x c, whose centred version has these singular values."""
    centred = normal(n, len(lengths))
    columns = torch.linalg.qr(centred - centred.mean(dim=0)).Q
    turn = torch.linalg.qr(normal(len(lengths), len(lengths), 1)).Q
    return columns * torch.tensor(lengths, dtype=torch.float64) @ turn + 3.0


def ranks(y: torch.Tensor) -> list[float]:
    """Return the three values of an output, whose input does not matter."""
    return [get(name, normal(*y.shape, 9), y) for name in NAMES]


@pytest.mark.parametrize(("alike", "channels"), [(1, 1), (1, 6), (4, 6), (6, 6), (40, 300)])
def test_directions_that_are_alike_are_counted(alike: int, channels: int) -> None:
    y = with_spectrum([2.5] * alike + [0.0] * (channels - alike), n=400)
    assert ranks(y) == pytest.approx([alike] * 3, rel=1e-9)


def test_a_geometric_spectrum_has_the_values_of_geometric_series() -> None:
    c, ratio = 12, 0.5
    y = with_spectrum([ratio**k for k in range(c)])
    total = (1 - ratio**c) / (1 - ratio)
    shares = [ratio**k / total for k in range(c)]
    square, fourth = ((1 - ratio ** (p * c)) / (1 - ratio**p) for p in (2, 4))
    expected = [math.exp(-sum(p * math.log(p) for p in shares)), square, square**2 / fourth]
    assert ranks(y) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("n", "c"), [(300, 20), (40, 39), (30, 90), (2, 5)])
def test_they_are_those_of_a_singular_value_decomposition(n: int, c: int) -> None:
    y = coloured(n, c)
    lengths = np.linalg.svd((y - y.mean(dim=0)).numpy(), compute_uv=False)[: min(n - 1, c)]
    shares, variances = lengths / lengths.sum(), lengths**2
    expected = [
        math.exp(-(shares * np.log(shares)).sum()),
        variances.sum() / variances.max(),
        variances.sum() ** 2 / (variances**2).sum(),
    ]
    effective, stable, participation = ranks(y)
    assert [effective, stable, participation] == pytest.approx(expected, rel=1e-7)
    assert 1 - 1e-9 <= stable <= participation + 1e-9
    assert participation <= effective + 1e-9 <= min(n - 1, c) + 1e-8


def test_independent_channels_fill_as_many_directions_as_there_are() -> None:
    assert ranks(normal(20_000, 8)) == pytest.approx([8] * 3, rel=0.05)


def test_rounding_and_dead_channels_are_no_directions() -> None:
    y = with_spectrum([1.0, 1.0, 1e-7, 0.0])
    assert ranks(y) == pytest.approx([2, 2, 2], rel=1e-6)


def test_a_constant_output_has_none() -> None:
    x = normal(20, 4)
    for name in NAMES:
        assert "output is the same for every image" in why_not(name, x, torch.ones_like(x))
