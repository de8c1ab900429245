"""The nonlinearity coefficient: closed forms, a full Jacobian, its standard error, its edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from survey.network_measures.base import NetworkScore
from survey.network_measures.nonlinearity_coefficient import IMAGES, nonlinearity_coefficient
from survey.network_measures.sample import ImageSample
from survey.network_measuring import measure_network

NAME = "nonlinearity_coefficient"


class Elementwise(nn.Module):
    """A function of each pixel apart."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.function(images)


def drawn(n: int = IMAGES, size: int = 6, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, 3, size, size, generator=torch.Generator().manual_seed(seed))


def scored(model: nn.Module, images: torch.Tensor, micro_batch: int = 128) -> NetworkScore:
    steps = nonlinearity_coefficient(model.eval(), ImageSample(images, None, micro_batch))
    while True:
        try:
            next(steps)
        except StopIteration as end:
            score: NetworkScore = end.value[NAME]
            return score


def test_one_number_an_image_is_a_row_of_one() -> None:
    column = nn.Sequential(nn.Flatten(), nn.Linear(108, 1), nn.ReLU())
    expected = scored(column, drawn()).value
    assert expected is not None
    assert scored(nn.Sequential(column, nn.Flatten(0)), drawn()).value == expected


def test_of_a_mapping_the_logits_count() -> None:
    class Mapped(Elementwise):
        def forward(self, images: torch.Tensor) -> object:
            return {"features": images, "logits": self.function(images)}

    assert scored(Mapped(torch.square), drawn()) == scored(Elementwise(torch.square), drawn())


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: 3 * x + 7, 1.0),
        (functional.relu, 1.2112),
        (torch.square, math.sqrt(2)),
        (lambda x: torch.sin(3 * x), 3.0),
        (functional.gelu, 1.1484),
        (torch.tanh, 1.0853),
        (functional.silu, 1.1009),
        (torch.sigmoid, 1.0167),
    ],
)
def test_elementwise_functions_of_gaussian_pixels_have_their_closed_form(
    function: Any, expected: float
) -> None:
    score = scored(Elementwise(function), drawn())
    assert score.value is not None
    assert score.standard_error is not None
    assert abs(score.value - expected) < 3 * score.standard_error
    assert score.standard_error < 0.02 * expected
    assert score.samples == IMAGES


def test_a_linear_network_has_one_whatever_its_input() -> None:
    torch.manual_seed(1)
    images = drawn(256) ** 3 * torch.linspace(0.1, 4.0, 36).view(1, 1, 6, 6)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(128, 10))
    score = scored(net, images)
    assert score.value == pytest.approx(1.0, abs=3 * (score.standard_error or 0.0))


def test_it_is_that_of_the_full_jacobian_and_covariance() -> None:
    torch.manual_seed(2)
    images = drawn(512, 2) * torch.tensor([3.0, 1.0, 0.3]).view(1, 3, 1, 1)
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 5), nn.ReLU())
    jacobians = torch.func.vmap(torch.func.jacrev(net))(images[:, None]).view(512, 5, 12).double()
    covariance = images.flatten(1).T.double().cov()
    numerator = torch.einsum("kij,jl,kil->k", jacobians, covariance, jacobians).mean()
    expected = (numerator / net(images).double().var(0).sum()).sqrt().item()
    score = scored(net, images)
    assert score.value == pytest.approx(expected, abs=3 * (score.standard_error or 0.0))
    assert 1.02 < expected < 3


def test_a_reverse_product_agrees_with_the_forward_one() -> None:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(128, 10))
    forward = scored(net, drawn())
    reverse = scored(nn.Sequential(net, _ReverseAlone()), drawn())
    assert (forward.details["direction"], reverse.details["direction"]) == ("forward", "reverse")
    error = math.hypot(forward.standard_error or 0.0, reverse.standard_error or 0.0)
    assert forward.value == pytest.approx(reverse.value, abs=3 * error)


class _Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class _ReverseAlone(nn.Module):
    """The identity, without a forward derivative."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = _Identity.apply(x)
        return result


def test_a_network_that_changes_its_input_in_place_has_the_same() -> None:
    scaled = nn.Sequential(Elementwise(lambda x: x.mul_(10)), _ReverseAlone())
    score, plain = scored(scaled, drawn(64)), scored(_ReverseAlone(), drawn(64))
    assert score.details["direction"] == "reverse"
    assert score.value == pytest.approx(plain.value, rel=1e-5)


@pytest.mark.parametrize("last", [nn.Identity(), _ReverseAlone()])
def test_in_the_inference_mode_it_is_the_same(last: nn.Module) -> None:
    net, images = nn.Sequential(nn.Conv2d(3, 2, 3), nn.ReLU(), last), drawn(32)
    plain = scored(net, images)
    with torch.inference_mode():
        assert scored(net, images) == plain
    assert plain.value is not None


@pytest.mark.parametrize("function", [torch.square, lambda x: 2 * x])
def test_its_standard_error_is_its_spread_over_samples(function: Any) -> None:
    scores = [scored(Elementwise(function), drawn(96, 2, seed)) for seed in range(150)]
    spread = torch.tensor([score.value for score in scores]).std().item()
    mean = sum(score.standard_error or 0.0 for score in scores) / len(scores)
    # Blocks overstate it a little for a linear function; images drawn apart by 2.1.
    assert 0.85 < mean / spread < 1.35


def test_the_size_of_a_pass_changes_nothing_but_rounding() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GELU(), nn.Flatten())
    whole, parts = scored(net, drawn(50), 64), scored(net, drawn(50), 7)
    assert whole.value == pytest.approx(parts.value, rel=1e-5)
    assert whole.standard_error == pytest.approx(parts.standard_error, rel=1e-4)


class _Constant(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 1e3 + 0 * x.flatten(1)[:, :4]


@pytest.mark.parametrize(
    ("model", "images", "reason"),
    [
        (_Constant(), drawn(8), "the same for all images"),
        (Elementwise(torch.sign), drawn(8), "no derivative"),
        (Elementwise(torch.log), drawn(8), "not finite"),
        (nn.Flatten(), drawn(2), "it needs 3 images, and there are 2"),
    ],
)
def test_what_has_no_coefficient_has_a_reason(
    model: nn.Module, images: torch.Tensor, reason: str
) -> None:
    score = scored(model, images)
    assert score.value is None
    assert reason in str(score.reason)


def test_the_attention_of_torch_has_one_too() -> None:
    torch.manual_seed(4)
    layer = nn.TransformerEncoderLayer(12, 2, 24, batch_first=True)
    net = nn.Sequential(nn.Flatten(2), nn.Unflatten(2, (3, 12)), nn.Flatten(1, 2), layer)
    before = torch.backends.mha.get_fastpath_enabled()
    score = measure_network(net, (3, 6, 6), [NAME], [drawn(32)])[NAME]
    assert score.details["direction"] == "forward"
    assert 0.5 < (score.value or 0.0) < 3
    assert torch.backends.mha.get_fastpath_enabled() == before
