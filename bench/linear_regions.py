"""Benchmark of linear regions: the tables of ``docs/linear-regions.md``.

Regions are traced exactly and compared with a grid of 40,000 points; the Hamming density of more
and more steps is compared with the exact changes; closed paths lead around held-out digits.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torchvision
from torch import nn
from torch.nn import functional

from catalog.checkpoint_references import resolve
from catalog.model_loading import load_model
from catalog.models import find
from catalog.zoo.train import labelled_images
from docs.generate.tables import markdown_table
from survey import hamming_density, linear_regions, measure_network
from survey.network_measures.base import NetworkScore
from survey.regions.closed_paths import closed_paths
from survey.regions.line import Line
from survey.regions.watched_network import WatchedNetwork

#: An odd number: no point of the grid is where a tent map bends.
GRID = 39_999
STEPS = (8, 32, 64, 128, 512)
MEASURES = ("hamming_density", "absolute_deviation")
BUNDLED = ("digits_vgg7", "digits_plain14", "digits_resnet14")


class Tent(nn.Module):
    """The tent map on [0, 1], composed with itself."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.times):
            x = 2 * functional.relu(x) - 4 * functional.relu(x - 0.5)
        return x


class Mixed(nn.Module):
    """Convolution, batch norm, max-pooling, ReLU6 and a skip at 28 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm, self.head = nn.BatchNorm2d(8), nn.Linear(8 * 49, 10)
        self.norm.running_mean, self.norm.running_var = torch.randn(8), 0.5 + 1.5 * torch.rand(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(functional.relu6(3 * self.norm(self.a(x))), 2)
        x = functional.relu(x + self.b(x))
        made: torch.Tensor = self.head(functional.avg_pool2d(x, 2).flatten(1))
        return made


Case = tuple[str, nn.Module, torch.Tensor, torch.Tensor]


def cases() -> Iterator[Case]:
    """Yield networks, each with the ends of a segment."""
    torch.manual_seed(0)
    for times in (6, 10):
        yield f"tent map composed {times} times", Tent(times), torch.zeros(1), torch.ones(1)
    perceptron = nn.Sequential(
        nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(),
        nn.Linear(128, 10),
    )  # fmt: skip
    yield "perceptron 784-128-128-10, random", perceptron, *torch.rand(2, 1, 28, 28)
    yield "conv, norm, ReLU6, max-pool, skip, random", Mixed(), *torch.rand(2, 1, 28, 28)


def large_cases() -> Iterator[Case]:
    """Yield networks whose regions no grid of this size counts in a minute."""
    model, images = bundled("digits_vgg7")
    near = torch.lerp(images[0], images[1], 0.1)
    yield "digits_vgg7, a tenth of the way between two held-out digits", model, images[0], near
    model, images = bundled("digits_resnet14")
    yield "digits_resnet14, two held-out digits", model, images[0], images[1]
    yield "resnet18, random, 32 px", torchvision.models.resnet18(), *torch.randn(2, 3, 32, 32)


def bundled(name: str) -> tuple[nn.Module, torch.Tensor]:
    """Return a bundled network with its weights, and the held-out digits as it takes them."""
    (architecture,) = find(f"small:{name}")
    model = load_model(architecture, resolve(None, architecture, Path())).model
    return model, labelled_images("heldout", architecture.transform)[0]


def exact_row(case: Case) -> list[str]:
    """Return what is traced on a segment, and what a grid sees of it."""
    name, model, start, end = case
    began = time.process_time()
    traced = linear_regions(model, start, end)
    seconds = time.process_time() - began
    line = Line(WatchedNetwork(model, exact=True), start, end)
    grid = line.changes(line.steps(GRID))
    low, middle, high = (
        line.outputs(torch.lerp(traced.knots[:-1], traced.knots[1:], share))
        for share in (0.25, 0.5, 0.75)
    )
    bend = (low - 2 * middle + high).abs().max() / traced.outputs.abs().max()
    thinnest = traced.knots.diff().min()
    return [
        name, str(grid.units), f"{traced.regions:,}", f"{len(grid.at.unique()) + 1:,}",
        f"{thinnest:.1e}", f"{bend:.0e}", f"{seconds:.1f}",
    ]  # fmt: skip


def hamming_row(case: Case, *, traces: bool) -> list[str]:
    """Return the changes of sign that more and more steps see, and the exact number."""
    name, model, start, end = case
    exact = ""
    if traces:
        traced = linear_regions(model, start, end)
        exact = f"{sum('max_pool' not in site for site in traced.sites):,}"
    flips = [f"{hamming_density(model, start, end, steps).flips:,}" for steps in STEPS]
    return [name, *flips, exact]


def path_row(name: str) -> list[str]:
    """Return the measures of the closed paths around held-out digits."""
    model, images = bundled(name)
    cells, seconds = [], []
    for measure in MEASURES:
        began = time.process_time()
        scores = measure_network(model, images.shape[1:], [measure], [images])
        seconds.append(f"{time.process_time() - began:.0f}")
        cells += [_with_error(score) for score in scores.values()]
    return [name, *cells, " + ".join(seconds)]


def _with_error(score: NetworkScore) -> str:
    return f"{score.value:.3g} ± {score.standard_error:.1g}"


def long_line() -> str:
    """Return what is traced from one copy of a digit to the next on its closed path."""
    model, images = bundled("digits_vgg7")
    path = closed_paths(images[:1].double())[0]
    began = time.process_time()
    traced = linear_regions(model, path[0], path[1])
    seconds = time.process_time() - began
    return f"{traced.regions:,} regions, {len(traced.times):,} changes, {seconds:.0f} s"


def main() -> None:
    """Print the three tables of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="trace one long segment instead")
    torch.set_num_threads(1)
    if parser.parse_args().long:
        print(long_line())
        return
    all_cases = list(cases())
    exact = ["network", "units", "regions", "grid", "thinnest", "bend inside", "s"]
    hamming = ["network", *(f"m = {steps}" for steps in STEPS), "exact"]
    paths = ["changes a line", "a line and unit", "deviation", "/ (length x spread)"]
    print(markdown_table(exact, [exact_row(case) for case in all_cases]), "\n", flush=True)
    traced, *others = large_cases()
    rows = [hamming_row(case, traces=True) for case in [*all_cases[2:], traced]]
    rows += [hamming_row(case, traces=False) for case in others]
    print(markdown_table(hamming, rows), "\n", flush=True)
    print(markdown_table(["network", *paths, "s"], [path_row(name) for name in BUNDLED]))


if __name__ == "__main__":
    main()
