"""Networks that take their time and leave the processor to others: scans of them last by waiting.

``python:tests.acceptance.patient:first`` and so on. How fast a machine is decides nothing then.
"""

from __future__ import annotations

import time

import torch
from torch import nn


class Patient(nn.Sequential):
    """Waits before each forward pass."""

    def __init__(self, seconds: float, seed: int) -> None:
        torch.manual_seed(seed)
        layers = [layer for _ in range(20) for layer in (nn.Linear(16, 16), nn.ReLU())]
        super().__init__(nn.Flatten(), nn.Linear(192, 16), *layers, nn.Linear(16, 10))
        self.seconds = seconds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(self.seconds)
        return super().forward(x)


def first() -> nn.Module:
    return Patient(0.2, 1)


def second() -> nn.Module:
    return Patient(0.2, 2)


def third() -> nn.Module:
    return Patient(0.2, 3)


def fourth() -> nn.Module:
    return Patient(0.2, 4)


def slowest() -> nn.Module:
    return Patient(0.7, 5)


def slower() -> nn.Module:
    return Patient(0.7, 6)


for each in (first, second, third, fourth, slower, slowest):
    each.survey = {"size": 8, "classes": 10}  # type: ignore[attr-defined]
