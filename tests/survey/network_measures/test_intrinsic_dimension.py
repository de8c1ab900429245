"""The intrinsic dimension: sets of known dimension, its standard error, whose features it takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from survey.network_measures.base import NetworkScore
from survey.network_measures.intrinsic_dimension import distances_of, two_nearest
from survey.network_measures.last_features import LastFeatures
from survey.network_measuring import measure_network
from tests.survey.network_measures.test_active_fraction import Computed, drawn


def torus(d: int, n: int, seed: int = 0) -> torch.Tensor:
    """Return points of a flat torus of d circles, without edges."""
    generator = torch.Generator().manual_seed(seed)
    angles = 2 * math.pi * torch.rand(n, d, generator=generator, dtype=torch.float64)
    return torch.cat([angles.cos(), angles.sin()], 1)


def dimension(rows: torch.Tensor) -> float | None:
    return two_nearest(distances_of(rows))


def score_of(net: nn.Module, images: torch.Tensor) -> NetworkScore:
    scores = measure_network(net, images.shape[1:], ["intrinsic_dimension"], [images])
    return scores["intrinsic_dimension"]


@pytest.mark.parametrize("d", [1, 2, 3])
def test_a_torus_has_its_dimension_and_spreads_by_the_standard_error(d: int) -> None:
    values = torch.tensor([dimension(torus(d, 500, seed)) for seed in range(40)])
    error = d / math.sqrt(500 / 2)
    assert values.mean().item() == pytest.approx(d, rel=0.05)
    assert 0.7 < values.std().item() / error < 1.4


def test_a_square_turned_into_many_dimensions_has_two() -> None:
    generator = torch.Generator().manual_seed(0)
    axes = torch.linalg.qr(torch.randn(300, 2, generator=generator, dtype=torch.float64)).Q
    square = torch.rand(4000, 2, generator=generator, dtype=torch.float64)
    assert dimension(square @ axes.T + 1e4) == pytest.approx(2, rel=0.05)


def test_it_depends_neither_on_scale_nor_on_order() -> None:
    rows = torus(3, 300)
    value = dimension(rows)
    assert dimension(1e-3 * rows.flip(0) + 7) == pytest.approx(value, rel=1e-9)


def test_points_alike_count_once_and_distances_are_exact() -> None:
    rows = 1e3 + torus(30, 40).float()
    distances = distances_of(torch.cat([rows, rows[::2], rows[3:4]]))
    direct = (rows[:, None].double() - rows.double()).norm(dim=2)
    assert distances.shape == (40, 40)
    assert distances.numpy() == pytest.approx(direct.numpy(), abs=1e-6)


def test_the_ratios_of_a_planted_law_give_its_slope() -> None:
    """Pairs far apart, each with a third point: one ratio a point is known."""
    # Points at 0, 1 and 1 + m on lines far apart have the ratios 1 + m, m or 1 / m, and 1 + 1 / m.
    ends = torch.linspace(1.1, 3.0, 50, dtype=torch.float64)
    rows = torch.zeros(150, 51, dtype=torch.float64)
    for line, m in enumerate(ends):
        rows[3 * line : 3 * line + 3, line] = 1e3
        rows[3 * line : 3 * line + 3, 50] = torch.tensor([0.0, 1.0, 1.0 + m])
    ratios = torch.cat([1 + ends, ends, 1 + 1 / ends]).log().sort().values[:135]
    heights = torch.tensor([-math.log(1 - i / 150) for i in range(1, 136)], dtype=torch.float64)
    slope = torch.linalg.lstsq(ratios[:, None], heights[:, None]).solution.item()
    assert dimension(rows) == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize(
    ("compute", "layers", "expected"),
    [
        (lambda m, x: m.b(m.a(x).flatten(1)), (nn.Conv2d(3, 2, 3), nn.Linear(32, 5)), (4, 32)),
        (lambda m, x: m.b(m.a(x)).mean((2, 3)), (nn.Conv2d(3, 2, 3), nn.Conv2d(2, 5, 1)), (4, 32)),
        (lambda m, x: functional.linear(x.flatten(1), m.a.weight), (nn.Linear(108, 3),), (4, 108)),
    ],
)
def test_features_are_the_input_of_the_last_layer(
    compute: Callable[[Any, torch.Tensor], Any],
    layers: tuple[nn.Module, ...],
    expected: tuple[int, int],
) -> None:
    images = drawn(4, 3, 6, 6)
    net = Computed(compute, **dict(zip("ab", layers, strict=False))).eval()
    rows = LastFeatures(net).of(images)
    assert tuple(rows.shape) == expected
    first = images if expected[1] == 108 else net.a(images)  # type: ignore[operator]
    assert torch.equal(rows, first.detach().flatten(1))


def test_features_that_are_changed_afterwards_are_kept() -> None:
    net = Computed(lambda m, x: x.add_(m.a(x)), a=nn.Linear(6, 6)).eval()
    images = drawn(3, 6)
    assert torch.equal(LastFeatures(net).of(images.clone()), images)


def test_a_network_has_the_dimension_of_its_features() -> None:
    net = nn.Sequential(nn.Linear(4, 30, bias=False), nn.Linear(30, 2))
    torch.nn.init.orthogonal_(net.get_parameter("0.weight"))
    images = torus(2, 500).float()
    score = score_of(net, torch.cat([images, images[:300]]))
    assert score.value == pytest.approx(dimension(torus(2, 500)), rel=1e-3)
    assert score.samples == 500
    assert score.standard_error == pytest.approx((score.value or 0.0) / math.sqrt(250))
    assert score.details["features"] == 30


@pytest.mark.parametrize(
    ("net", "images", "reason"),
    [
        (nn.Linear(4, 2), drawn(99, 4), "100 images whose features differ, and there are 99"),
        (nn.Linear(4, 2), torch.ones(200, 4), "there are 1"),
        (nn.Linear(4, 2), drawn(200, 4).log(), "not finite"),
        (nn.Linear(200, 2), torch.eye(200), "equal distances"),
        (nn.ReLU(), drawn(200, 4), "no convolution and no linear layer"),
        (
            Computed(lambda m, x: m.a(x.flatten(0, 1)), a=nn.Linear(4, 2)),
            drawn(200, 5, 4),
            "a row an image",
        ),
    ],
)
def test_what_is_undefined_has_a_reason(net: nn.Module, images: torch.Tensor, reason: str) -> None:
    score = score_of(net, images)
    assert score.value is None
    assert reason in str(score.reason)
