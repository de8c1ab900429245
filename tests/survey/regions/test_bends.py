"""Corners of upper envelopes against every pair of lines, and windows against max-pooling."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from survey.regions.bends import Signs, Winners
from survey.regions.pooling_windows import largest_along, windows


@pytest.mark.parametrize("seed", range(20))
def test_corners_are_where_the_largest_line_changes(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randn(2, 1, 7, dtype=torch.float64, generator=generator)
    times = torch.tensor([0.0, 1.0], dtype=torch.float64)
    corners = Winners(ends).crossing_times(times).sort().values
    grid = torch.linspace(0, 1, 20_001, dtype=torch.float64)
    lines = torch.lerp(ends[0], ends[1], grid[:, None])
    changed = lines.argmax(1).diff().nonzero()[:, 0]
    assert torch.equal((corners * 20_000).floor().long(), changed)


def test_equal_lines_do_not_take_turns() -> None:
    ends = torch.tensor([[[0.0, 0.0, -1.0]], [[1.0, 1.0, 1.0]]], dtype=torch.float64)
    assert not len(Winners(ends).crossing_times(torch.tensor([0.0, 1.0]).double()))
    zeros = torch.zeros(3, 4, 5, dtype=torch.float64)
    assert not len(Winners(zeros).crossing_times(torch.tensor([0.0, 0.5, 1.0]).double()))


def test_lines_through_one_corner_meet_there_once() -> None:
    slopes = torch.tensor([-1.0, 0.0, 0.5, 1.0], dtype=torch.float64)
    ends = torch.stack([-0.25 * slopes, 0.75 * slopes])[:, None]
    assert Winners(ends).crossing_times(torch.tensor([0.0, 1.0]).double()).tolist() == [0.25]


def test_rounding_is_no_sign() -> None:
    values = torch.tensor([[1.0, 1e-17], [1.0, -1e-17]], dtype=torch.float64)
    assert not len(Signs(values).crossing_times(torch.tensor([0.0, 1.0]).double()))
    assert Signs(values).pieces().tolist() == [[True, False], [True, False]]


@pytest.mark.parametrize(
    ("function", "shape", "options"),
    [
        (functional.max_pool1d, (2, 3, 9), {"kernel_size": 3}),
        (functional.max_pool2d, (2, 3, 9, 8), {"kernel_size": 2}),
        (functional.max_pool2d, (2, 3, 9, 8), {"kernel_size": 3, "stride": 2, "padding": 1}),
        (functional.max_pool2d, (2, 3, 9, 8), {"kernel_size": (3, 2), "stride": (1, 2)}),
        (functional.max_pool2d, (2, 3, 9, 8), {"kernel_size": 3, "dilation": 2}),
        (functional.max_pool2d, (2, 3, 9, 8), {"kernel_size": 2, "ceil_mode": True}),
        (functional.max_pool3d, (2, 3, 5, 6, 4), {"kernel_size": 2, "padding": 1}),
        (functional.adaptive_max_pool2d, (2, 3, 9, 8), {"output_size": (4, 3)}),
        (functional.adaptive_max_pool2d, (2, 3, 9, 8), {"output_size": (None, 1)}),
        (functional.adaptive_max_pool1d, (2, 3, 9), {"output_size": 4}),
    ],
)
def test_the_largest_of_each_window_is_the_pooling(
    function: Any, shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    pooled = function(values, **options)
    expected = pooled.reshape(*shape[:2], -1)
    assert torch.equal(windows(pooled_name(function), [values], options).amax(-1), expected)
    first, *rest = options.values()
    if list(options)[1:] in ([], ["stride"], ["stride", "padding"]):
        placed = windows(pooled_name(function), [values, first, *rest], {})
        assert torch.equal(placed.amax(-1), expected)


def pooled_name(function: Any) -> Any:
    """Return the function that a torch function mode sees."""
    seen = []

    class See(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    name = function.__name__ if "boolean" not in function.__name__ else ""
    sizes = {"1": (1, 1, 4), "2": (1, 1, 4, 4), "3": (1, 1, 4, 4, 4)}
    digit = next((d for d in "123" if d in name), None)
    with See():
        for shape in [sizes[digit]] if digit else sizes.values():
            try:
                function(torch.zeros(shape), 2)
            except (RuntimeError, ValueError):
                continue
    return seen[-1]


def test_maxima_along_axes() -> None:
    values = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    for axes in (1, -1, (2, 3), [1, -1]):
        assert torch.equal(largest_along(values, axes).amax(-1), values.amax(axes))
