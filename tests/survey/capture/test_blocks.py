"""Repeat positions are those that one counts by hand in a block's listing."""

from __future__ import annotations

import pytest
import torch
import torchvision
from torch import nn
from torch.nn import functional

from survey.capture.blocks import Blocks
from survey.capture.forward import Capture


def repeats(model: nn.Module, size: int = 64) -> list[int]:
    images = torch.empty(2, 3, size, size, device="meta")
    with torch.inference_mode():
        _, pairs = Capture(model.eval()).forward(images)
    return [pair.site.repeat for pair in pairs]


#: Of torchvision's networks: the first positions, counted by hand. Stems and heads are no blocks.
KNOWN: dict[str, list[int]] = {
    "resnet50": [1] + [1, 2, 3] * 16,
    "resnet18": [1] + [1, 2] * 8,
    "densenet121": [1, *[1, 2] * 6, 1, *[1, 2] * 12, 1, *[1, 2] * 24, 1, *[1, 2] * 16, 1],
    "efficientnet_b0": [1, *[1, 2, 3], *[1, 2, 3, 4] * 15, 1],
    "regnet_y_400mf": [1] + [1, 2, 3, 4, 5] * 16,
    "vgg11": [1] * 10,
    "convnext_tiny": [1] * 18,
    "swin_t": [1] * 12,
}


@pytest.mark.parametrize("name", KNOWN)
def test_repeat_positions_of_known_networks(name: str) -> None:
    # Some read numbers off tensors while they are built, and so cannot be built without storage.
    with torch.device("cpu" if name.startswith("regnet") else "meta"):
        model = torchvision.models.get_model(name, weights=None)
    assert repeats(model.to("meta")) == KNOWN[name]


class Block(nn.Module):
    """Functional activations, so that only the calls tell that it is one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + functional.relu(self.second(functional.relu(self.first(x))))


class Separable(nn.Module):
    """Two weight layers and no activation: a part, not a block."""

    def __init__(self) -> None:
        super().__init__()
        self.depthwise, self.pointwise = nn.Conv2d(3, 3, 1, groups=3), nn.Conv2d(3, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pointwise(self.depthwise(x))


class Row(nn.Module):
    """Parts or blocks one after the other, each followed by an activation."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts, self.act = nn.ModuleList(parts), nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = self.act(part(x))
        return x


def test_what_a_block_is(subtests: pytest.Subtests) -> None:
    for model, expected in [
        (nn.Sequential(Block(), Block()), [1, 2, 1, 2]),
        # A row of blocks is a stage, and its own activations are outside of blocks.
        (nn.Sequential(Row(Block(), Block())), [1, 2, 1, 1, 2, 1]),
        # A row of parts without activations is a block.
        (nn.Sequential(Row(Separable(), Separable())), [1, 2]),
        # One layer alone is no block, nor is the network itself.
        (nn.Sequential(Row(nn.Conv2d(3, 3, 1)), Row(nn.Conv2d(3, 3, 1))), [1, 1]),
        (Row(nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)), [1, 1]),
        # A stage of one block counts as that block.
        (nn.Sequential(Row(Block())), [1, 2, 3]),
        (nn.Sequential(Row(Row(Block()))), [1, 2, 3, 4]),
    ]:
        with subtests.test(model=model, expected=expected):
            assert repeats(model.to("meta")) == expected


def test_calls_of_a_shared_activation_count_where_they_are_made() -> None:
    shared = nn.ReLU()
    first, second = Row(Separable(), Separable()), Row(Separable(), Separable())
    first.act = second.act = shared
    assert repeats(nn.Sequential(first, second).to("meta")) == [1, 2, 1, 2]


def test_without_modules_around_it_a_call_is_first() -> None:
    model = nn.Linear(2, 2)
    assert Blocks({model: ""}).repeats(["", ""]) == [1, 1]
