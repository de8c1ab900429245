"""Random small networks whose paths are also enumerated, one by one."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

#: The paths to a channel: the activations on each, and its chance in a random walk from there.
Channel = list[tuple[int, float]]


class RandomGraph(nn.Module):
    """Layers, sums, concatenations, slices and activations, put together by chance."""

    def __init__(self, seed: int, steps: int = 8) -> None:
        super().__init__()
        chance = random.Random(seed)
        self.layers = nn.ModuleList()
        self.program: list[tuple[str, tuple[int, ...]]] = []
        widths = [4]
        for _ in range(steps):
            kind = chance.choice(["dense", "grouped", "depthwise", "relu", "sum", "cat", "half"])
            at = chance.randrange(max(0, len(widths) - 3), len(widths))
            width = widths[at]
            alike = [i for i, each in enumerate(widths) if each == width]
            places: tuple[int, ...] = (at,)
            if kind == "sum":
                places = tuple(chance.choice(alike) for _ in range(chance.choice([2, 3])))
            elif kind == "cat":
                places = tuple(chance.randrange(len(widths)) for _ in range(2))
                width = sum(widths[i] for i in places)
            elif kind == "half":
                width = width // 2
            groups = {"dense": 1, "grouped": 2, "depthwise": width}.get(kind, 0)
            self.layers.append(nn.Conv2d(width, width, 1, groups=groups) if groups else nn.ReLU())
            if width > 12 or width % 4:
                self.layers[-1] = nn.ReLU()
                kind, places, width = "relu", (at,), widths[at]
            self.program.append((kind, places))
            widths.append(width)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        values = [images]
        for layer, (kind, places) in zip(self.layers, self.program, strict=True):
            given = [values[i] for i in places]
            if kind == "sum":
                made = given[0] + given[1] if len(given) == 2 else torch.stack(given).sum(0)
                # Sums that only sums read would be one sum.
                made = functional.avg_pool2d(made, 1)
            elif kind == "cat":
                made = torch.cat(given, 1)
            elif kind == "half":
                made = given[0].chunk(2, 1)[0]
            else:
                made = layer(given[0])
            values.append(made)
        return values[-1].mean((2, 3))

    def enumerated(self) -> tuple[float, float, int]:
        """Return the mean over paths, that of a random walk, and the number of paths."""
        values: list[list[Channel]] = [[[(0, 1.0)] for _ in range(4)]]
        for layer, (kind, places) in zip(self.layers, self.program, strict=True):
            values.append(_made(kind, [values[i] for i in places], layer))
        ends = [path for channel in values[-1] for path in channel]
        return (
            sum(length for length, _ in ends) / len(ends),
            sum(length * chance for length, chance in ends) / len(values[-1]),
            len(ends),
        )


def _made(kind: str, given: Sequence[list[Channel]], layer: nn.Module) -> list[Channel]:
    first = given[0]
    if kind == "relu":
        return [[(length + 1, chance) for length, chance in channel] for channel in first]
    if kind == "cat":
        return [channel for each in given for channel in each]
    if kind == "half":
        return first[: len(first) // 2]
    if kind == "sum":
        return [_chosen(channels) for channels in zip(*given, strict=True)]
    assert isinstance(layer, nn.Conv2d)
    size = len(first) // layer.groups
    starts = range(0, len(first), size)
    return [_chosen(first[start : start + size]) for start in starts for _ in range(size)]


def _chosen(channels: Sequence[Channel]) -> Channel:
    return [(length, chance / len(channels)) for each in channels for length, chance in each]
