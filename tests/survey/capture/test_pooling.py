"""Pooling is the mean over everything but images and channels."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from survey import CaptureError
from survey.capture.axes import Layout
from survey.capture.pooling import pool


@given(
    images=st.integers(1, 4), fold=st.integers(1, 3), c=st.integers(1, 5), seed=st.integers(0, 99)
)
def test_folded_parts_of_an_image_are_averaged(images: int, fold: int, c: int, seed: int) -> None:
    tensor = torch.randn(images * fold, c, 3, 2, generator=torch.Generator().manual_seed(seed))
    expected = tensor.double().reshape(images, fold, c, 6).mean((1, 3))
    assert torch.allclose(pool(tensor, Layout(0, (1,)), images), expected, atol=1e-6)


def test_channels_in_two_axes_become_columns_in_order() -> None:
    tensor = torch.arange(24.0).reshape(2, 2, 2, 3)
    expected = tensor.double().mean(2).reshape(2, 6)
    assert torch.equal(pool(tensor, Layout(0, (1, 3)), 2), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_mean_is_exact_to_a_few_roundings_of_float32(dtype: torch.dtype) -> None:
    tensor = torch.randn(2, 3, 56, 56, generator=torch.Generator().manual_seed(0)).to(dtype) + 8
    exact = tensor.double().mean((2, 3))
    assert torch.allclose(pool(tensor, Layout(0, (1,)), 2), exact, rtol=3e-7, atol=0)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (Layout(None, (1,)), "holds the 4 images"),
        (Layout(2, (1,)), "holds the 4 images"),
        (Layout(0, ()), "holds the channels"),
        (Layout(0, (0,)), "holds the channels"),
    ],
)
def test_lost_axes_are_told(layout: Layout, message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        pool(torch.zeros(4, 2, 3), layout, 4)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor:UserWarning")
def test_what_is_no_plain_number_is_refused() -> None:
    quantized = torch.quantize_per_tensor(torch.ones(4, 2, 3), 0.1, 0, torch.qint8)
    for tensor in (quantized, torch.ones(4, 2, 3).to_sparse(), torch.ones(4, 2, 3) * 1j):
        with pytest.raises(CaptureError):
            pool(tensor, Layout(0, (1,)), 4)
    with pytest.raises(CaptureError):
        pool(torch.ones(4, 0, 3), Layout(0, (1,)), 4)
