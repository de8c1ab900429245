"""Networks that take their time and leave the processor to others: scans of them last by waiting.

``python:tests.acceptance.patient:first`` and so on. How fast a machine is decides nothing then. All
but the first stay in their batches while there is a file that ``PATIENT_GATE`` names.
"""

from __future__ import annotations

import os
import time
from itertools import count
from pathlib import Path

import torch
from torch import nn

#: More than two batches need and fewer than twelve.
PASSES = 9


class Patient(nn.Sequential):
    """Waits before each forward pass, and before one of the later ones until it is let on."""

    def __init__(self, seconds: float, seed: int) -> None:
        torch.manual_seed(seed)
        layers = [layer for _ in range(20) for layer in (nn.Linear(16, 16), nn.ReLU())]
        super().__init__(nn.Flatten(), nn.Linear(192, 16), *layers, nn.Linear(16, 10))
        self.seconds = seconds
        gate = os.environ.get("PATIENT_GATE")
        self.gate = Path(gate) if gate and seed != 1 else None
        self.passes = count()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(self.seconds)
        if self.gate and next(self.passes) >= PASSES:
            while self.gate.exists():
                time.sleep(0.05)
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
