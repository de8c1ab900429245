"""The absolute deviation: exact for broken lines, and by trapezoids for all else."""

from __future__ import annotations

import pytest
import torch

from survey.regions.deviation import absolute_deviation, trapezoid_deviation


def test_two_triangles_where_the_gap_passes_zero() -> None:
    times = torch.tensor([0.0, 0.25, 0.75, 1.0], dtype=torch.float64)
    outputs = torch.tensor([0.0, 1.0, -3.0, 0.0], dtype=torch.float64)[:, None]
    expected = 2.0 * (0.25 / 2 + 0.5 / 2 * (1 + 9) / 4 + 0.25 * 3 / 2)
    assert absolute_deviation(times, outputs, 2.0).item() == pytest.approx(expected, abs=1e-15)


def test_a_straight_line_has_none() -> None:
    times = torch.tensor([0.0, 0.3, 1.0], dtype=torch.float64)
    outputs = torch.stack([5 * times - 2, 0 * times], 1)
    assert absolute_deviation(times, outputs, 1.0).abs().max() < 1e-15
    assert absolute_deviation(times[[0, 2]], outputs[[0, 2]], 1.0).tolist() == [0.0, 0.0]


def test_trapezoids_come_near_to_it() -> None:
    generator = torch.Generator().manual_seed(0)
    knots = torch.cat([torch.tensor([0.0, 1.0]), torch.rand(9, generator=generator)]).sort().values
    values = torch.randn(11, generator=generator)
    grid = torch.linspace(0, 1, 100_001, dtype=torch.float64)
    after = torch.searchsorted(knots.double(), grid).clamp(1, 10)
    low, high = knots[after - 1].double(), knots[after].double()
    dense = torch.lerp(
        values[after - 1].double(), values[after].double(), (grid - low) / (high - low)
    )
    exact = absolute_deviation(knots.double(), values.double()[:, None], 3.0)
    assert trapezoid_deviation(grid, dense[:, None], 3.0).item() == pytest.approx(
        exact.item(), rel=1e-7
    )


def test_of_a_parabola() -> None:
    grid = torch.linspace(0, 1, 10_001, dtype=torch.float64)
    deviation = trapezoid_deviation(grid, grid.square()[:, None], 1.0)
    assert deviation.item() == pytest.approx(1 / 6, rel=1e-7)
