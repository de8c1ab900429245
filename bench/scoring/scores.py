"""Benchmark of scoring: every site of a network, beside the affinity score as it was published.

    OMP_NUM_THREADS=1 python -m bench.scoring.scores PHOTOGRAPHS resnet50 vgg16

PHOTOGRAPHS is a folder of pictures by class; the networks are torchvision's, with random weights.
Times are those of the processor, summed over threads; the forward passes are not counted.

The published score is written from its formula: covariances by scikit-learn's Ledoit and Wolf,
square roots and a pseudo-inverse in float32, and POT's exact transport. It gives the shrunk
affinity alone, where this package gives every metric. Printed are both, the affinity alone, how
many times longer the published score takes than that, how far both are apart at most, and how far
at that site if the published score is computed in float64.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TypeVar

import ot
import torch
from sklearn.covariance import LedoitWolf

from catalog.datasets import open_dataset
from catalog.models import find
from jobs.runners.images import normalise
from survey import MeasureSettings, SiteScore
from survey.capture.forward import Capture
from survey.capture.pooled_pair import PooledPair
from survey.capture.rounding import NOISE_IMAGES
from survey.eval_mode import evaluating
from survey.metrics.affinity import raw_affinity
from survey.metrics.pair import Pair
from survey.scoring import score_pair

#: Processor seconds that all scores of a network may take.
GOALS = {"resnet50": 7.5}

#: How many times as long the published score must take at least.
FASTER = 10

MICRO_BATCH = 64

T = TypeVar("T")

#: The pooled pairs of one site, a micro-batch each.
Parts = list[PooledPair]


def captured(name: str, folder: str, images: int) -> list[Parts]:
    """Return the pairs of each site of a network with random weights."""
    (architecture,) = find(f"torchvision:{name}")
    transform = architecture.transform
    torch.manual_seed(0)
    model = architecture.build()
    samples = open_dataset(f"folder:{folder}", Path()).samples(transform)
    shown = islice((sample.pixels for sample in samples if sample.pixels is not None), images)
    parts: list[list[PooledPair]] = []
    with evaluating(model), torch.inference_mode():
        capture = Capture(model)
        while pixels := list(islice(shown, MICRO_BATCH)):
            inputs = normalise(torch.stack(pixels), transform)
            pairs = capture.forward(inputs)[1]
            parts.append(pairs if parts else capture.with_noise(inputs[:NOISE_IMAGES], pairs))
    return [list(site) for site in zip(*parts, strict=True)]


def published(x: torch.Tensor, y: torch.Tensor, dtype: torch.dtype = torch.float32) -> float:
    """Return the affinity score of a pair (n x c each), as published but for another type.

    It is NaN where its linear algebra fails.
    """
    x, y = x.to(dtype), y.to(dtype)
    before, after = (torch.from_numpy(LedoitWolf().fit(rows.numpy()).covariance_).to(dtype)
                     + 1e-6 * torch.eye(rows.shape[1], dtype=dtype) for rows in (x, y))  # fmt: skip
    root = square_root(before)
    try:
        inverse = torch.linalg.pinv(root)
    except torch.linalg.LinAlgError:
        # LAPACK's decomposition of a float32 matrix may not converge.
        return math.nan
    transport = inverse @ square_root(root @ after @ root) @ inverse
    mapped = (x - x.mean(dim=0)) @ transport
    costs = torch.cdist(mapped, y - y.mean(dim=0)).square().double().numpy()
    cost = ot.emd2([], [], costs, numItermax=10_000_000)
    return 1.0 - math.sqrt(cost / (2.0 * float(after.trace())))


def square_root(matrix: torch.Tensor) -> torch.Tensor:
    """Return the square root of a positive semidefinite matrix."""
    values, vectors = torch.linalg.eigh(matrix)
    root: torch.Tensor = (vectors * values.clamp_min(0.0).sqrt()) @ vectors.T
    return root


def timed(compute: Callable[[], T]) -> tuple[float, T]:
    """Return the processor seconds of a computation, and its result."""
    began = time.process_time()
    result = compute()
    return time.process_time() - began, result


def scored(sites: list[Parts], settings: MeasureSettings) -> list[SiteScore]:
    """Return every site's row."""
    return [score_pair(0, number, parts, settings) for number, parts in enumerate(sites)]


def matrices(sites: list[Parts], rows: list[SiteScore]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the pooled pairs of the sites that have a score."""
    whole = []
    for parts, score in zip(sites, rows, strict=True):
        xs = [part.x for part in parts if part.x is not None]
        ys = [part.y for part in parts if part.y is not None]
        if score.status == "ok":
            whole.append((torch.cat(xs), torch.cat(ys)))
    return whole


def row(name: str, sites: list[Parts], images: int) -> str:
    """Return a network's line of the table."""
    settings = MeasureSettings(images_per_score=images)
    everything, rows = timed(lambda: scored(sites, settings))
    pairs = matrices(sites, rows)
    # The published score has the ridge that the product has on request alone.
    alone, ours = timed(lambda: [raw_affinity(Pair(x, y, ridge="absolute")) for x, y in pairs])
    theirs, others = timed(lambda: [published(x, y) for x, y in pairs])
    differences = (abs(a - b) for a, b in zip(ours, others, strict=True))
    apart, worst = max((each, site) for site, each in enumerate(differences) if each >= 0)
    double = abs(ours[worst] - published(*pairs[worst], torch.float64))
    goal = GOALS.get(name, "")
    return (
        f"| {name} | {len(sites)} | {max(x.shape[1] for x, _ in pairs)} | {everything:.2f} |"
        f" {goal} | {alone:.2f} | {theirs:.1f} | {theirs / alone:.1f} | {FASTER} |"
        f" {apart:.0e} | {double:.0e} |"
    )


def main() -> None:
    """Print a row a network."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("photographs", help="a folder of pictures by class")
    parser.add_argument("networks", nargs="+", help="names of torchvision")
    parser.add_argument("--images", type=int, default=512, help="images in a score")
    arguments = parser.parse_args()
    print("| network | sites | widest | all metrics, s | goal, s | affinity, s | published, s |"
          " published / affinity | goal | apart | in float64 |\n|" + "---|" * 11)  # fmt: skip
    for name in arguments.networks:
        sites = captured(name, arguments.photographs, arguments.images)
        print(row(name, sites, arguments.images), flush=True)


if __name__ == "__main__":
    main()
