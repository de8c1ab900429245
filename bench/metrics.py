"""Benchmark of all metrics beside the affinity score alone, on ResNet-50's 49 sites at n = 512.

The tensors are those of a forward pass at 224 pixels in micro-batches of 64, with one random
micro-batch at each site used for all eight. Hook work is pooling them and counting their values
near zero; pooling is also timed alone, as what the affinity score needs by itself. Printed are
the parts, and the ratio of everything to pooling and affinity alone. Times are those of the
processor, summed over threads: on a shared machine they are more reliable than the clock.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from survey.capture.axes import Layout
from survey.capture.near_zero import NearZero
from survey.capture.pooling import pool, pool_and_count
from survey.metrics import METRICS
from survey.metrics.base import value
from survey.metrics.pair import Pair

IMAGES, MICRO_BATCH = 512, 64

#: Channels, height (and width), and how many of ResNet-50's activations have them.
SITES = [
    (64, 112, 1), (64, 56, 6), (256, 56, 3),
    (128, 56, 1), (128, 28, 7), (512, 28, 4),
    (256, 28, 1), (256, 14, 11), (1024, 14, 6),
    (512, 14, 1), (512, 7, 5), (2048, 7, 3),
]  # fmt: skip

seconds: dict[str, float] = {}


@contextmanager
def timed(name: str) -> Iterator[None]:
    """Add the seconds of a block to a part."""
    began = time.process_time()
    yield
    seconds[name] = seconds.get(name, 0.0) + time.process_time() - began


def site(channels: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return unpooled input and output of one micro-batch, correlated as in trained networks."""
    mixing = torch.randn(channels, channels) * channels**-0.5
    level = torch.randn(MICRO_BATCH, channels) @ mixing + 0.5 * torch.randn(channels)
    x = torch.randn(MICRO_BATCH, channels, size, size) + level[:, :, None, None]
    return x, x.relu()


def measure_site(channels: int, size: int) -> None:
    """Time every part of one site."""
    x, y = site(channels, size)
    layout = Layout(0, (1,))
    rounds = IMAGES // MICRO_BATCH
    before, after = NearZero(0, 0), NearZero(0, 0)
    for _ in range(rounds):
        with timed("pooling alone"):
            pool(x, layout, MICRO_BATCH)
            pool(y, layout, MICRO_BATCH)
        with timed("hook work"):
            matrix, near = pool_and_count(x, layout, MICRO_BATCH)
            pool(y, layout, MICRO_BATCH)
            # What the capture does for ReLU; other activations' outputs are counted too.
            before, after = before + near, after + near.rectified()
    # The same micro-batch eight times has too low a rank: the scores get other rows.
    level = torch.randn(IMAGES, channels, dtype=torch.float64)
    inputs = level @ (torch.randn(channels, channels, dtype=torch.float64) * channels**-0.5)
    inputs = 0.5 * inputs + matrix.mean(dim=0)
    noise = 0.05 * torch.randn(IMAGES, channels, dtype=torch.float64)
    outputs = torch.nn.functional.softplus(inputs + noise, beta=2)
    pair = Pair(inputs, outputs, before=before, after=after)
    for metric in METRICS:
        for quantity in metric.quantities:
            name = quantity.name if metric.name == "affinity" else metric.name
            with timed(name):
                value(quantity, pair)


def main() -> None:
    """Time the 49 sites and print the parts and ratios."""
    torch.manual_seed(0)
    with torch.inference_mode():
        measure_site(64, 7)
        seconds.clear()
        for channels, size, calls in SITES:
            for _ in range(calls):
                measure_site(channels, size)
    for name, spent in seconds.items():
        print(f"{name:15} {spent:6.2f} s")
    alone = seconds.pop("pooling alone")
    everything = sum(seconds.values())
    base = alone + seconds["affinity"]
    both = base + seconds["affinity_plain"]
    print(f"everything / (pooling alone + affinity): {everything / base:.2f}")
    print(f"everything / (pooling alone + affinity, shrunk and plain): {everything / both:.2f}")
    scores = everything - seconds["hook work"]
    print(f"without hook work: {scores / seconds['affinity']:.2f}")
    print(f"the output's spectrum / all scores: {seconds['spectrum'] / scores:.3f}")
    print(f"{torch.get_num_threads()} threads, n = {IMAGES}, {sum(s[2] for s in SITES)} sites")


if __name__ == "__main__":
    main()
