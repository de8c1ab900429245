"""Trained networks of MNIST's size that a user brings, each with a state dict of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

from catalog.checkpoint_references import resolve
from catalog.model_loading import load_model
from catalog.models import find
from catalog.models.consent import trust
from survey import linear_regions

SOURCE = """
import torch
from torch import nn
from torch.nn import functional


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(784, 48), nn.Linear(48, 48), nn.Linear(48, 10)

    def forward(self, x):
        x = torch.flatten(x[:, :1], 1)
        return self.c(torch.relu(self.b(functional.relu(self.a(x)))))

    def pieces(self, x):
        first = self.a(x[:, :1].reshape(len(x), -1))
        return torch.cat([first > 0, self.b(first * (first > 0)) > 0], 1)


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 4, 5), nn.Conv2d(4, 6, 5)
        self.drop, self.norm = nn.Dropout2d(), nn.BatchNorm2d(6)
        self.c, self.d = nn.Linear(96, 24), nn.Linear(24, 10)

    def forward(self, x):
        x = functional.relu(functional.max_pool2d(self.a(x[:, :1]), 2))
        x = functional.max_pool2d(functional.relu(self.norm(self.drop(self.b(x)))), 2)
        x = functional.leaky_relu(self.c(x.view(x.size(0), -1)), 0.1)
        return self.d(functional.dropout(x, training=self.training))

    def pieces(self, x):
        z, units = self.a(x[:, :1]), []
        for last in (False, True):
            if last:
                z = self.norm(self.b(z))
                units.append(z > 0)
                z = z * (z > 0)
            size = z.shape[-1] // 2
            windows = z.reshape(*z.shape[:2], size, 2, size, 2).transpose(3, 4).flatten(4)
            z, winner = windows.max(-1)
            units.append(winner)
            if not last:
                units.append(z > 0)
                z = z * (z > 0)
        units.append(self.c(z.flatten(1)) > 0)
        return torch.cat([unit.flatten(1).long() for unit in units], 1)


for network in (Perceptron, Convolutional):
    network.survey = {"size": 28, "classes": 10}
"""


@pytest.fixture(scope="module")
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = load_digits(return_X_y=True)
    small = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    large = functional.interpolate(small, size=28, mode="bilinear", align_corners=False)
    return (large - 0.5).expand(-1, 3, -1, -1), torch.tensor(labels)


@pytest.mark.parametrize(
    "name", ["Perceptron", pytest.param("Convolutional", marks=pytest.mark.long)]
)
def test_regions_of_a_trained_network(
    name: str,
    digits: tuple[torch.Tensor, torch.Tensor],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    images, labels = digits
    net = brought(name, images, labels, tmp_path, monkeypatch)
    assert (net(images[1000:]).argmax(1) == labels[1000:]).float().mean() > 0.7
    traced = linear_regions(net, images[3], images[8])
    twin, steps = net.double(), 5_000
    start, end = images[3].double(), images[8].double()

    def at(times: torch.Tensor) -> torch.Tensor:
        return start + times.view(-1, 1, 1, 1) * (end - start)

    with torch.no_grad():
        times = torch.arange(steps + 1, dtype=torch.float64) / steps
        pieces = torch.cat([twin.pieces(at(part)) for part in times.split(1000)])
        width = traced.knots.diff()
        low, middle, high = (twin(at(traced.knots[:-1] + s * width)) for s in (0.2, 0.5, 0.8))
    changed = set((pieces[1:] != pieces[:-1]).any(1).nonzero()[:, 0].tolist())
    places, count = (traced.knots[1:-1] * steps).floor().long().unique(return_counts=True)
    # Where a digit has an even background, many values of a window are equal at the ends alone.
    ends = {0, steps - 1}
    assert set(places[count == 1].tolist()) - ends <= changed - ends <= set(places.tolist())
    assert len(changed) > 5
    assert (low - 2 * middle + high).abs().max() < 1e-10
    assert torch.allclose(traced.outputs[[0, -1]], twin(torch.stack([start, end])))


def brought(
    name: str,
    images: torch.Tensor,
    labels: torch.Tensor,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> nn.Module:
    """Train a network of the user's, save its weights, and load both by name."""
    (folder / "brought_nets.py").write_text(SOURCE)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "brought_nets", raising=False)
    reference = f"python:brought_nets:{name}"
    trust(reference)
    (architecture,) = find(reference)
    torch.manual_seed(0)
    net = architecture.build().train()
    optimiser = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(5):
        for batch in torch.randperm(1000).split(50):
            optimiser.zero_grad()
            functional.cross_entropy(net(images[batch]), labels[batch]).backward()
            optimiser.step()
    torch.save(net.state_dict(), folder / "weights.pt")
    return load_model(architecture, resolve("file:weights.pt", architecture, folder)).model
