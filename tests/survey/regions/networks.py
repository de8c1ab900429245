"""Piecewise linear networks that also write down, by themselves, which piece each unit is on."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

import torch
from torch import nn
from torch.nn import functional

#: Of an activation its function and its breakpoints.
ACTIVATIONS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[float, ...]]] = {
    "relu": (functional.relu, (0.0,)),
    "relu6": (lambda z: functional.relu6(3 * z), (0.0, 2.0)),
    "leaky": (lambda z: functional.leaky_relu(z, 0.1), (0.0,)),
    "hardtanh": (lambda z: functional.hardtanh(z, -0.5, 1.5), (-0.5, 1.5)),
    "hardsigmoid": (functional.hardsigmoid, (-3.0, 3.0)),
    "softshrink": (lambda z: functional.softshrink(z, 0.3), (-0.3, 0.3)),
    "abs": (torch.abs, (0.0,)),
    "clamp": (lambda z: z.clamp(max=0.7), (0.7,)),
    "where": (lambda z: torch.where(z > 0.2, z, 0.5 * z + 0.1), (0.2,)),
    "masked": (lambda z: z * (z > 0), (0.0,)),
}


class Written(Protocol):
    """A network that says which piece each unit is on."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor: ...

    def pieces(self, x: torch.Tensor) -> torch.Tensor:
        """Return n x units."""


class RandomNet(nn.Module):
    """Linear layers, activations, skips and maxima, put together by chance."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        chance = random.Random(seed)
        generator = torch.Generator().manual_seed(seed)
        self.inputs = chance.randint(1, 5)
        self.steps: list[tuple[str, bool]] = []
        self.layers = nn.ModuleList()
        width = self.inputs
        for _ in range(chance.randint(1, 4)):
            kind = chance.choice([*ACTIVATIONS, "relu", "relu", "maxima"])
            made = width if chance.random() < 0.4 else chance.randint(2, 9)
            self.layers.append(nn.Linear(width, 3 * made if kind == "maxima" else made))
            self.steps.append((kind, made == width))
            width = made
        self.head = nn.Linear(width, 3)
        for parameter in self.parameters():
            nn.init.normal_(parameter, 0.0, 0.8, generator=generator)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer, (kind, skips) in zip(self.layers, self.steps, strict=True):
            z = layer(x)
            y = z.unflatten(1, (-1, 3)).amax(-1) if kind == "maxima" else ACTIVATIONS[kind][0](z)
            x = x + y if skips else y
        return self.head(x)

    def pieces(self, x: torch.Tensor) -> torch.Tensor:
        pieces = []
        for layer, (kind, skips) in zip(self.layers, self.steps, strict=True):
            z = x @ layer.weight.T + layer.bias
            if kind == "maxima":
                y, winner = z.reshape(len(z), -1, 3).max(-1)
                pieces.append(winner)
            else:
                y = ACTIVATIONS[kind][0](z)
                pieces += [(z > bound).long() for bound in ACTIVATIONS[kind][1]]
            x = x + y if skips else y
        return torch.cat(pieces, 1)


class ConvNet(nn.Module):
    """Convolution, batch norm, max-pooling with padding, ReLU6, in-place ReLU and a skip."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.first, self.second = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.norm, self.six = nn.BatchNorm2d(6), nn.ReLU6()
        self.pool, self.relu = nn.MaxPool2d(3, 2, 1), nn.ReLU(inplace=True)
        self.head = nn.Linear(6, 4)
        for parameter in self.parameters():
            nn.init.normal_(parameter, 0.0, 0.5, generator=generator)
        self.norm.running_mean.normal_(generator=generator)
        self.norm.running_var.uniform_(0.5, 2.0, generator=generator)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.six(4 * self.norm(self.first(x))))
        x = self.relu(x + self.second(x))
        return self.head(functional.adaptive_avg_pool2d(x, 1).flatten(1))

    def pieces(self, x: torch.Tensor) -> torch.Tensor:
        z = 4 * self.norm(self.first(x))
        y = z.clamp(0, 6)
        edged = functional.pad(y, (1, 1, 1, 1), value=-1.0)
        windows = edged.unfold(2, 3, 2).unfold(3, 3, 2).flatten(4)
        pooled, winner = windows.max(-1)
        last = pooled + self.second(pooled)
        each = [z > 0, z > 6, winner, last > 0]
        return torch.cat([piece.flatten(1).long() for piece in each], 1)


def tent(times: int) -> nn.Module:
    """Return the tent map on [0, 1], composed with itself."""

    class Tent(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(times):
                x = 2 * functional.relu(x) - 4 * functional.relu(x - 0.5)
            return x

    return Tent()


class Computed(nn.Module):
    """A network that is one function, with layers that it may use."""

    def __init__(self, compute: Callable[..., object], **layers: nn.Module) -> None:
        super().__init__()
        self.compute = compute
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x: torch.Tensor) -> object:
        return self.compute(self, x)


def segment(inputs: int | tuple[int, ...], seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two random inputs."""
    generator = torch.Generator().manual_seed(seed)
    shape = (inputs,) if isinstance(inputs, int) else inputs
    return torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)


def on_a_grid(
    network: nn.Module, start: torch.Tensor, end: torch.Tensor, steps: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return after which steps of a grid any unit is on another piece, and the outputs, by hand."""
    twin = network.double().eval()
    times = torch.arange(steps + 1, dtype=torch.float64) / steps
    view = times.view(-1, *[1] * start.ndim)
    points = start.double() + view * (end.double() - start.double())
    with torch.no_grad():
        pieces = torch.cat([twin.pieces(part) for part in points.split(2048)])
        outputs = torch.cat([twin(part) for part in points.split(2048)])
    return (pieces[1:] != pieces[:-1]).any(1).nonzero()[:, 0], outputs
