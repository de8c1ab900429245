"""Pairs of matrices, and reading one quantity of them."""

from __future__ import annotations

import math

import torch

from survey.metrics import QUANTITIES
from survey.metrics.base import NoValue, value
from survey.metrics.pair import Pair

BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}


def normal(n: int, c: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, c, generator=generator, dtype=torch.float64)


def coloured(n: int, c: int, seed: int = 0) -> torch.Tensor:
    """Correlated columns of unequal scale and mean, as pooled activations have."""
    mixing = normal(c, c, seed + 1) / math.sqrt(c)
    scales = torch.logspace(-1, 1, c, dtype=torch.float64)
    return normal(n, c, seed) @ mixing * scales + normal(1, c, seed + 2)


def get(name: str, x: torch.Tensor, y: torch.Tensor) -> float:
    result = value(BY_NAME[name], Pair(x, y))
    assert not isinstance(result, NoValue), result
    return result


def why_not(name: str, x: torch.Tensor, y: torch.Tensor) -> str:
    result = value(BY_NAME[name], Pair(x, y))
    assert isinstance(result, NoValue), result
    return result.reason
