"""Depth: weighted layers on the longest path, on networks whose depth is known."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional
from torchvision import models

from catalog.models.counting import model_cost, weighted_depth


@pytest.mark.parametrize(("name", "depth"), [("alexnet", 8), ("resnet18", 18), ("googlenet", 22)])
def test_depth_is_the_number_in_the_name_or_paper(name: str, depth: int) -> None:
    options = {"init_weights": False} if name == "googlenet" else {}
    with torch.device("meta"):
        network = models.get_model(name, **options).eval()
        image = torch.zeros(1, 3, 224, 224)
    assert weighted_depth(network, image) == depth


class Forward(nn.Module):
    """Two convolutions and a linear map, put together by a function."""

    def __init__(self, forward: Callable[[Forward, torch.Tensor], object]) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
        self.last = nn.Linear(8, 8)
        self.register_buffer("filter", torch.ones(3, 3, 1, 1))
        self.function = forward

    def forward(self, image: torch.Tensor) -> object:
        return self.function(self, image)


@pytest.mark.parametrize(
    ("forward", "depth"),
    [
        (lambda net, x: x.relu(), 0),
        (lambda net, x: net.second(net.first(x)), 2),
        (lambda net, x: net.first(x) + net.second(net.first(x)), 2),
        (lambda net, x: torch.cat([net.first(x), net.second(x)]), 1),
        (lambda net, x: net.first(net.first(net.first(x))), 3),
        (lambda net, x: net.first(x).relu_().add_(x), 1),
        (lambda net, x: x.clone().add_(net.first(x)), 1),
        (lambda net, x: torch.zeros_like(x).copy_(net.first(x)), 1),
        (lambda net, x: net.first(x).transpose(1, 2)[..., ::2] * 2, 1),
        # What is computed from weights alone is a weight; a fixed filter is none.
        (lambda net, x: functional.conv2d(x, net.first.weight.exp(), padding=1), 1),
        (lambda net, x: functional.conv2d(x, net.filter), 0),
        (lambda net, x: net.first(x) + net.last(net.last.weight).mean(), 1),
        # Attention multiplies data with data.
        (lambda net, x: (y := net.last(x)) @ y.transpose(-1, -2), 1),
        (lambda net, x: functional.scaled_dot_product_attention(y := net.last(x), y, y), 1),
        (lambda net, x: torch.einsum("bchw,wv->bchv", net.first(x), net.last.weight), 2),
        (lambda net, x: {"features": [net.first(x), (net.second(net.first(x)), None)]}, 2),
        (lambda net, x: net.last.weight, 0),
    ],
)
@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_depth_follows_the_longest_path_of_data(
    forward: Callable[[Forward, torch.Tensor], object], depth: int, device: str
) -> None:
    with torch.device(device):
        assert weighted_depth(Forward(forward).eval(), torch.zeros(2, 3, 8, 8)) == depth


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_fused_attention_hides_no_work_and_no_depth(device: str) -> None:
    layers, width, hidden, tokens = 2, 8, 16, 17
    with torch.device(device):
        network = models.VisionTransformer(
            image_size=32, patch_size=8, num_layers=layers, num_heads=2,
            hidden_dim=width, mlp_dim=hidden, num_classes=5,
        ).eval()  # fmt: skip
        image = torch.zeros(1, 3, 32, 32)
    fused = torch.backends.mha.get_fastpath_enabled()
    cost = model_cost(network, (3, 32, 32))
    # Patches, then four projections, two products with the attention and the MLP, then the head.
    layer = tokens * (4 * width**2 + 2 * tokens * width + 2 * width * hidden)
    expected = 16 * 3 * 8**2 * width + layers * layer + 5 * width
    assert round(cost.gflops * 1e9) == expected
    assert weighted_depth(network, image) == 1 + 4 * layers + 1
    assert torch.backends.mha.get_fastpath_enabled() == fused
