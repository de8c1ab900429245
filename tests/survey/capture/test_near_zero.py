"""Counting is exact for every shape, type and memory layout, and copies nothing large."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from survey.capture import near_zero
from survey.capture.near_zero import NearZero, count_near_zero

TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def naive(tensor: torch.Tensor) -> int:
    return int((tensor.abs() <= 1e-3).sum())


def counted(tensor: torch.Tensor) -> NearZero:
    return NearZero(naive(tensor), tensor.numel(), int((tensor < -1e-3).sum()))


def values(*shape: int, seed: int = 0) -> torch.Tensor:
    return 2e-3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@given(
    length=st.integers(1, 400_000), scale=st.sampled_from([1.0, 0.1, 30.0]), seed=st.integers(0, 99)
)
def test_it_equals_the_plain_count(length: int, scale: float, seed: int) -> None:
    tensor = scale * values(length, seed=seed)
    assert count_near_zero(tensor) == counted(tensor)


def test_every_floating_type_has_the_limit_in_its_own_precision(subtests: pytest.Subtests) -> None:
    for dtype in TYPES:
        with subtests.test(dtype=dtype):
            limit = torch.tensor(1e-3, dtype=dtype)
            above = torch.nextafter(limit, torch.tensor(1.0, dtype=dtype))
            special = [0.0, -0.0, math.inf, -math.inf, math.nan]
            tensor = torch.stack([limit, -limit, above, -above, *map(limit.new_tensor, special)])
            assert count_near_zero(tensor) == NearZero(4, 9, 2)
            assert count_near_zero(tensor).near == naive(tensor)
            many = values(3, 70_000).to(dtype)
            assert count_near_zero(many).near == naive(many)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool])
def test_whole_numbers_are_near_zero_if_they_are_zero(dtype: torch.dtype) -> None:
    tensor = torch.tensor([0, 1, 2, 0, 0]).to(dtype)
    assert count_near_zero(tensor) == NearZero(3, 5)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("length", [0, 1, 1023, 1024, 1025, 300_000])
def test_a_mask_is_counted_as_on_an_accelerator(length: int, share: float) -> None:
    mask = torch.rand(length, generator=torch.Generator().manual_seed(length)) < share
    assert int(near_zero._count(mask)) == int(mask.sum())


def test_every_memory_layout_is_counted() -> None:
    image = values(4, 30, 40, 50)
    shapes = {
        "transposed": image.transpose(1, 3),
        "channels last": image.contiguous(memory_format=torch.channels_last),
        "every other": image[:, ::2, 1:],
        "expanded": image[:1].expand(7, 30, 40, 50),
        "no axes": image[0, 0, 0, 0],
        "empty": image[:0],
        "requires grad": image.clone().requires_grad_(),
        "negated": torch.view_as_complex(values(9, 2)).conj().imag,
    }
    for name, tensor in shapes.items():
        assert count_near_zero(tensor) == counted(tensor.detach()), name


def test_dense_memory_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    add = near_zero.Counter.add

    def watched(counter: near_zero.Counter, piece: np.ndarray) -> None:
        seen.append(piece.__array_interface__["data"][0])
        add(counter, piece)

    monkeypatch.setattr(near_zero.Counter, "add", watched)
    tensor = values(2, 64, 64, 64).contiguous(memory_format=torch.channels_last)
    count_near_zero(tensor)
    start = tensor.data_ptr()
    assert seen
    assert all(start <= address < start + tensor.nbytes for address in seen)


def test_it_works_in_inference_mode() -> None:
    with torch.inference_mode():
        assert count_near_zero(values(10).relu()).values == 10


def test_zeros_behind_a_rectifier_follow_from_its_input(subtests: pytest.Subtests) -> None:
    for rectify in [torch.relu, torch.nn.functional.relu6]:
        for dtype in TYPES:
            with subtests.test(dtype=dtype, rectify=rectify):
                special = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 1e-3, -1e-3, 7.0])
                tensor = torch.cat([values(300_000), special]).to(dtype)
                behind = count_near_zero(tensor).rectified()
                assert (behind.near, behind.values) == (naive(rectify(tensor)), tensor.numel())


def test_counts_add_up_and_divide() -> None:
    whole = NearZero(1, 4, 3) + NearZero(2, 2, 0)
    assert whole == NearZero(3, 6, 3)
    assert whole.fraction == 0.5
    assert (NearZero(torch.tensor(1), 4) + NearZero(torch.tensor(2), 2)).fraction == 0.5
