"""Benchmark of the pixel cache: reading a dataset's entry against decoding its photographs.

The photographs of the shared data folder are decoded, and read from their entry, in turn in one
process. Prints the ratio of the medians; both results are compared bit for bit. Files and entry are
in the page cache, so that no disk is timed. Processor time, of all threads, is more reliable than
the clock where other programs run.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from catalog.datasets import open_dataset
from catalog.datasets.base import Sample
from catalog.models.base import InputTransform
from catalog.pixel_cache.cache import PixelCache

ROUNDS = 9
PHOTOGRAPHS = Path(__file__).resolve().parents[2] / "shared" / "data" / "imagenet-sample"


def seconds(samples: Iterator[Sample]) -> tuple[float, float]:
    """Return the seconds, by the clock and of processors, that reading every sample takes."""
    began, busy = time.perf_counter(), time.process_time()
    for _ in samples:
        pass
    return time.perf_counter() - began, time.process_time() - busy


def equal(one: Sample, other: Sample) -> bool:
    """Return whether two samples are the same, bit for bit."""
    if one.pixels is None or other.pixels is None:
        return one == other
    described = [(s.position, s.name, s.label, s.error) for s in (one, other)]
    return torch.equal(one.pixels, other.pixels) and described[0] == described[1]


def main() -> None:
    """Time both in turn and print their ratio."""
    if not PHOTOGRAPHS.is_dir():
        sys.exit(f"no photographs at {PHOTOGRAPHS}: this benchmark reads the shared data folder")
    dataset = open_dataset(f"folder:{PHOTOGRAPHS}", Path())
    transform, fingerprint = InputTransform(size=224, resize=256), dataset.fingerprint()
    with tempfile.TemporaryDirectory() as folder:
        cache = PixelCache(Path(folder))

        def cached() -> Iterator[Sample]:
            return cache.samples(dataset, fingerprint, transform)

        seconds(dataset.samples(transform))
        building = seconds(cached())
        pairs = zip(dataset.samples(transform), cached(), strict=True)
        print(f"{sum(equal(*pair) for pair in pairs)} of {len(dataset)} samples are equal")
        decoding, right_after = [], []
        for _ in range(ROUNDS):
            decoding.append(seconds(dataset.samples(transform)))
            right_after.append(seconds(cached()))
        reading = [seconds(cached()) for _ in range(ROUNDS)]
    for index, clock in enumerate(("by the clock", "processor time")):
        slow, cold, fast = (
            statistics.median(t[index] for t in times) for times in (decoding, right_after, reading)
        )
        print(
            f"{clock:14} decoding {slow * 1e3:6.1f} ms, reading {fast * 1e3:5.1f} ms,"
            f" ratio {slow / fast:.1f}; right after decoding {cold * 1e3:5.1f} ms,"
            f" ratio {slow / cold:.1f}; building {building[index] / slow:.2f} of decoding"
        )
    print(f"medians of {ROUNDS}")


if __name__ == "__main__":
    main()
