"""One pass gives the bits of pooling and the count of counting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from survey.capture.axes import Layout
from survey.capture.near_zero import count_near_zero
from survey.capture.pooling import pool, pool_and_count
from survey.errors import CaptureError

torch.manual_seed(0)
CASES = {
    "maps": (torch.randn(4, 64, 40, 40), Layout(0, (1,)), 4),
    "large maps, one too many": (torch.randn(2, 18, 224, 224), Layout(0, (1,)), 2),
    "five maps": (torch.randn(1, 5, 256, 256), Layout(0, (1,)), 1),
    "one large map": (torch.randn(2, 1, 500, 500), Layout(0, (1,)), 2),
    "volumes": (torch.randn(3, 20, 15, 16, 17), Layout(0, (1,)), 3),
    "small": (torch.randn(2, 3, 4, 4), Layout(0, (1,)), 2),
    "vectors": (torch.randn(300, 600), Layout(0, (1,)), 300),
    "tokens": (torch.randn(4, 200, 300), Layout(0, (2,)), 4),
    "folded": (torch.randn(8, 64, 20, 20), Layout(0, (1,)), 4),
    "channels last": (
        torch.randn(4, 64, 40, 40).contiguous(memory_format=torch.channels_last),
        Layout(0, (1,)),
        4,
    ),
    "double": (torch.randn(4, 64, 40, 40).double(), Layout(0, (1,)), 4),
    "half": (torch.randn(4, 64, 40, 40).half(), Layout(0, (1,)), 4),
    "learned": (torch.randn(4, 64, 40, 40, requires_grad=True), Layout(0, (1,)), 4),
}


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_one_pass_gives_what_two_give(subtests: pytest.Subtests) -> None:
    for name, (values, layout, images) in CASES.items():
        for pooling in ["mean", "pre", "sum"]:
            with subtests.test(pooling=pooling, name=name):
                tensor = values * 1e-2
                matrix, near = pool_and_count(tensor, layout, images, pooling)  # type: ignore[arg-type]
                assert torch.equal(matrix, pool(tensor, layout, images, pooling))  # type: ignore[arg-type]
                assert near == count_near_zero(tensor)
                assert matrix.dtype == torch.float64


def test_what_cannot_be_pooled_is_told() -> None:
    with pytest.raises(CaptureError):
        pool_and_count(torch.randn(4, 5, 6), Layout(None, ()), 4)
