"""Convolutions whose weights each image makes for itself keep the images apart."""

from __future__ import annotations

import pytest
import torch
from timm.layers import CondConv2d
from torch import nn
from torch.nn import functional

from survey.capture.forward import Capture


class Conditional(nn.Module):
    """Two convolutions, the second in groups, whose weights each image mixes from experts."""

    def __init__(self) -> None:
        super().__init__()
        # More weights than the images have values, as in the last layers of a network.
        self.first = CondConv2d(6, 24, 3, padding=1, bias=True, num_experts=4)
        self.depthwise = CondConv2d(24, 24, 3, stride=2, padding="same", groups=24, num_experts=4)
        self.routing = nn.Linear(6, 4)
        self.norm = nn.BatchNorm2d(24)
        self.act = nn.SiLU()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        weights = torch.sigmoid(self.routing(images.mean((2, 3))))
        x = functional.relu(self.first(images, weights))
        x = self.act(self.norm(self.depthwise(x, weights)))
        return x.mean((2, 3))


def _expected(net: Conditional, images: torch.Tensor) -> list[torch.Tensor]:
    """Return the pooled inputs and outputs, with every image convolved by itself."""
    rows = []
    for image in images.split(1):
        routed = net.routing(image.mean((2, 3)))
        weights = torch.sigmoid(routed)
        kernels = [
            (weights @ conv.weight).view(conv.weight_shape) for conv in (net.first, net.depthwise)
        ]
        bias = (weights @ net.first.bias)[0]
        first = functional.conv2d(image, kernels[0], bias, padding=1)
        padded = functional.pad(first.relu(), (0, 1, 0, 1))
        x = net.norm(functional.conv2d(padded, kernels[1], stride=2, groups=24))
        maps = (first, first.relu(), x, net.act(x))
        rows.append([routed, weights, *(each.mean((2, 3)) for each in maps)])
    return [torch.cat(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_weights_that_each_image_mixes_keep_the_images_apart(count: int) -> None:
    torch.manual_seed(0)
    net = Conditional().eval()
    images = torch.randn(count, 6, 4, 4)
    order = torch.randperm(count)
    with torch.inference_mode():
        plain = net(images)
        output, pairs = Capture(net).forward(images)
        _, permuted = Capture(net).forward(images[order])
        expected = _expected(net, images)
    assert torch.equal(output, plain)
    assert [pair.site.layout for pair in pairs] == ["N,C", "N,C,*,*", "N,C,*,*"]
    given = [matrix for pair in pairs for matrix in (pair.x, pair.y)]
    moved = [matrix for pair in permuted for matrix in (pair.x, pair.y)]
    for matrix, other, columns in zip(given, moved, expected, strict=True):
        assert matrix is not None
        assert other is not None
        torch.testing.assert_close(matrix, columns.double(), rtol=0, atol=1e-6)
        torch.testing.assert_close(other, columns[order].double(), rtol=0, atol=1e-6)
