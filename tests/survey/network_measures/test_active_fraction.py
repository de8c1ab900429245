"""The active fraction: closed forms, gates, layouts, passes, and what is undefined."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from survey.network_measures.base import NetworkScore
from survey.network_measures.channel_moments import ChannelMoments, SiteMoments
from survey.network_measuring import measure_network


class Computed(nn.Module):
    """A network that is one function, with layers it may use."""

    def __init__(self, compute: Callable[[Any, torch.Tensor], Any], **layers: nn.Module) -> None:
        super().__init__()
        self.compute = compute
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, images: torch.Tensor) -> object:
        return self.compute(self, images)


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def moments_of(net: nn.Module, images: torch.Tensor, size: int = 128) -> dict[str, ChannelMoments]:
    moments = SiteMoments(net.eval())
    for part in images.split(size):
        moments.add(part.clone())
    return moments.of_sites()


def correlations(net: nn.Module, images: torch.Tensor) -> dict[str, list[float]]:
    return {
        name: each.squared_correlation.tolist() for name, each in moments_of(net, images).items()
    }


def scores_of(net: nn.Module, images: torch.Tensor) -> dict[str, NetworkScore]:
    return measure_network(net, images.shape[1:], ["active_fraction"], [images])


def values(net: nn.Module, images: torch.Tensor) -> list[float | None]:
    scores = scores_of(net, images)
    assert [score.reason for score in scores.values()] == [None] * 4
    return [score.value for score in scores.values()]


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        (functional.relu, 0.7335),
        (nn.ReLU(inplace=True), 0.7335),
        (torch.tanh, 0.9305),
        (torch.sigmoid_, 0.9842),
        (nn.GELU(), 0.7233),
        (nn.Hardswish(inplace=True), 0.8225),
        (lambda x: x * torch.sigmoid(x), 0.7985),
        (lambda x: x * functional.relu6(x + 3) / 6, 0.8225),
        (lambda x: functional.glu(torch.cat([x, x], 1), 1), 0.9842),
        (lambda x: functional.relu(x.movedim(1, -1)), 0.7335),
        (lambda x: functional.relu(x.flatten(1)), 0.7335),
    ],
)
def test_gaussian_inputs_have_the_closed_form(activation: Any, expected: float) -> None:
    net = Computed(lambda _, x: activation(x * 1))
    (found,) = correlations(net, drawn(400, 3, 32, 16)).values()
    assert len(found) == 3
    assert found == pytest.approx([expected] * 3, abs=0.004)


def test_the_map_is_that_of_a_least_squares_fit_whatever_the_passes() -> None:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Conv2d(3, 5, 3), nn.SiLU())
    images = drawn(50, 3, 8, 8) + 100
    (moments,) = moments_of(net, images, 7).values()
    with torch.no_grad():
        z = net[0](images).double().movedim(1, 0).flatten(1)
    y = functional.silu(z)
    for channel in range(5):
        design = torch.stack([z[channel], torch.ones_like(z[channel])], 1)
        fitted = torch.linalg.lstsq(design, y[channel]).solution
        slope, offset = (each[channel].item() for each in moments.affine_map())
        assert slope == pytest.approx(fitted[0].item(), rel=1e-5)
        assert offset == pytest.approx(fitted[1].item(), rel=1e-3, abs=1e-3)
        r = torch.corrcoef(torch.stack([z[channel], y[channel]]))[0, 1].item()
        assert moments.squared_correlation[channel].item() == pytest.approx(r * r, abs=1e-5)


def network_of_kinds() -> nn.Sequential:
    """Two layers of 4 channels each: of the first 2 are affine and 1 constant, of the second 1."""
    first, second = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)
    first.weight.data = torch.eye(4)[:, :, None, None]
    first.bias = nn.Parameter(torch.tensor([100.0, 100.0, -100.0, 0.0]))
    # All but the first channel see the only active one.
    second.weight.data = torch.tensor([[1.0, 0, 0, 0], *[[0, 0, 0, 1.0]] * 3])[:, :, None, None]
    second.bias = nn.Parameter(torch.tensor([1000.0, -0.5, -0.5, -0.5]))
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU())


def test_channels_are_counted_by_kind_and_paths_with_the_active_ones() -> None:
    scores = scores_of(network_of_kinds(), drawn(64, 4, 6, 6))
    assert {name: score.value for name, score in scores.items()} == pytest.approx(
        {
            "active_fraction": 4 / 8,
            "constant_fraction": 1 / 8,
            "active_path_length": 1 / 4 + 3 / 4,
            "active_path_length_normalised": 1 / 4 + 3 / 4,
        }
    )
    assert scores["active_fraction"].details["sites"] == {
        "1#1": {"channels": 4, "active": 1, "constant": 1},
        "3#1": {"channels": 4, "active": 3, "constant": 0},
    }
    assert scores["active_fraction"].samples == 64


def test_rectifiers_that_pass_all_on_leave_nothing_active() -> None:
    torch.manual_seed(2)
    net = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
    images = drawn(64, 12)
    assert (values(net, images)[0] or 0.0) > 0.9
    for layer in (net[0], net[2]):
        assert isinstance(layer, nn.Linear)
        layer.bias.data += 100
    # What is left of a channel that the second layer shuts is constant.
    assert values(net, images)[0::2] == [0.0, 0.0]


def test_a_saturated_output_is_constant_in_spite_of_rounding() -> None:
    layer = nn.Linear(4, 6)
    layer.weight.data *= 1e-8
    assert values(nn.Sequential(layer, nn.Sigmoid()), drawn(64, 4))[:2] == [0.0, 1.0]


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16])
def test_what_half_precision_tells_apart_is_not_constant(kind: torch.dtype) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(4, 6)
    # Outputs whose deviation is 1 to 4 % of their mean: tens of numbers in each type.
    layer.weight.data = 0.02 * torch.sign(torch.randn(6, 4))
    net = nn.Sequential(layer, nn.Sigmoid()).to(kind)
    assert values(net, drawn(512, 4).to(kind))[1] == 0.0


def test_channels_of_integers_are_counted_as_those_of_floats() -> None:
    images = 9 * drawn(64, 4)
    nets = (lambda _, x: torch.relu(x.int())), (lambda _, x: torch.relu(x.trunc()))
    whole, floats = (scores_of(Computed(net), images)["active_fraction"] for net in nets)
    assert whole.value == floats.value is not None


@pytest.mark.parametrize(
    ("net", "images", "reason"),
    [
        (nn.Linear(4, 4), drawn(8, 4), "it has no activations"),
        (Computed(lambda _, x: torch.relu(x / 0)), drawn(8, 4), "not finite"),
        (
            Computed(lambda _, x: torch.relu(x) if x[0, 0] > 10 else torch.tanh(x)),
            torch.cat([drawn(32, 4), 99 + drawn(32, 4)]),
            "depends on the images",
        ),
    ],
)
def test_what_is_undefined_has_a_reason(net: nn.Module, images: torch.Tensor, reason: str) -> None:
    scores = scores_of(net, images)
    assert [score.value for score in scores.values()] == [None] * 4
    assert all(reason in str(score.reason) for score in scores.values())


def test_paths_that_cannot_be_followed_leave_the_fractions() -> None:
    net = Computed(lambda _, x: torch.fft.fft(torch.relu(x), dim=2).real)
    scores = scores_of(net, drawn(8, 3, 4, 4))
    assert scores["active_fraction"].value == 1.0
    assert scores["active_path_length"].value is None
    assert math.isfinite(scores["constant_fraction"].value or 0.0)
