"""Benchmark of a worker beside a stand-in accelerator: images a second, and how busy the device is.

    python -m bench.scoring.accelerator PHOTOGRAPHS [--network resnet50] [--batches 4]

The device passes a batch in a set time, off the cores: a pass is enqueued at once, and what it
leaves is there when the device has come so far. It gives the pairs of a real network with random
weights on PHOTOGRAPHS, a folder of pictures by class, recorded before. Everything else is what a
worker does: images come from the cache of decoded ones, are cut into micro-batches, and their
scores are computed on threads while the next batch passes.

Runs on 1 and 2 cores are real; "cores had" says how much of them the machine gave. By arithmetic,
for more cores and for these without other work, a batch takes the longest of three: the device's
time, the time of the thread that feeds it, and all processor time over the cores, by processor
time measured here. Threads are not taken to wait for each other's locks.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import nn

import survey.measuring
from bench.scoring.scores import MICRO_BATCH, captured
from catalog.datasets import open_dataset
from catalog.models import find
from catalog.pixel_cache.cache import PixelCache
from docs.generate.tables import markdown_table
from survey import MeasureSettings, measure_batches
from survey.accuracy import Hits
from survey.capture.pooled_pair import PooledPair
from survey.score_queue import AHEAD, Overlap

IMAGES = 512

#: Cores of the runs, and of the arithmetic.
RUN, COMPUTED = (1, 2), (1, 2, 8, 16)

#: Metrics by the name of a row, and the share of its time that a device is to be busy on 16 cores.
ROWS = {"all": (None, 0.4), "affinity": (("affinity",), 0.8)}


@dataclass
class Device:
    """A device that passes a micro-batch in a set time and gives recorded pairs."""

    #: Pairs by micro-batch.
    recorded: list[list[PooledPair]]
    #: Seconds of a micro-batch.
    seconds: float
    #: When it will have done what was enqueued.
    free_at: float = 0.0
    #: Passes enqueued.
    passes: int = 0

    def __call__(self, *_: object, **__: object) -> Device:
        """Stand in for the capture of a model."""
        return self

    def forward(self, _: torch.Tensor) -> tuple[None, list[PooledPair]]:
        """Enqueue a pass; return what it will give."""
        self.free_at = max(self.free_at, time.perf_counter()) + self.seconds
        self.passes += 1
        return None, self.recorded[(self.passes - 1) % len(self.recorded)]

    def with_noise(self, _: torch.Tensor, pairs: list[PooledPair]) -> list[PooledPair]:
        """Return the recorded pairs, whose first ones have their noise."""
        return pairs

    def departure(self, pairs: list[PooledPair], *_: object) -> Leaving:
        """Stand in for the copy of what the last pass leaves."""
        return Leaving(pairs, self.free_at)


@dataclass(frozen=True)
class Leaving:
    """What a pass leaves, once the device has come so far."""

    pairs: list[PooledPair]
    ready_at: float

    def arrived(self) -> tuple[list[PooledPair], Hits]:
        """Return the pairs; waits until they are there."""
        time.sleep(max(0.0, self.ready_at - time.perf_counter()))
        return self.pairs, Hits(0, 0, 0)


@dataclass
class Run:
    """What some batches took."""

    batches: int
    device: float
    elapsed: float = 0.0
    #: Processor seconds of all threads, and of the one that feeds the device.
    processor: float = 0.0
    feeding: float = field(default=0.0)

    @property
    def busy(self) -> float:
        """Share of the time that the device worked."""
        return self.device * self.batches / self.elapsed


def photographs(folder: str, network: str, cache: PixelCache) -> Iterator[torch.Tensor]:
    """Yield decoded photographs without end, out of the cache from the second round on."""
    (architecture,) = find(f"torchvision:{network}")
    dataset = open_dataset(f"folder:{folder}", Path())
    fingerprint = dataset.fingerprint()
    while True:
        for sample in cache.samples(dataset, fingerprint, architecture.transform):
            if sample.pixels is not None:
                yield sample.pixels[None]


def run(
    device: Device,
    images: Iterator[torch.Tensor],
    cores: int,
    batches: int,
    metrics: tuple[str, ...] | None,
) -> Run:
    """Measure some batches on so many cores."""
    settings = MeasureSettings(IMAGES, MICRO_BATCH, metrics=metrics)
    everything = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(everything)[:cores]))
    patches: dict[str, Any] = {
        "Capture": device,
        "Departure": device.departure,
        "overlap_of": lambda _: Overlap(cores, AHEAD),
    }
    result = Run(batches, device.seconds * IMAGES / MICRO_BATCH)
    began = time.perf_counter(), time.process_time(), time.thread_time()
    with mock.patch.multiple(survey.measuring, **patches):
        for _ in measure_batches(nn.Identity(), images, settings, stop_batch=batches):
            pass
    ended = time.perf_counter(), time.process_time(), time.thread_time()
    result.elapsed, result.processor, result.feeding = (
        after - before for before, after in zip(began, ended, strict=True)
    )
    os.sched_setaffinity(0, everything)
    return result


def computed(measured: Run, cores: int) -> Run:
    """Return what the batches of a run would take on more cores."""
    longest = max(measured.device * measured.batches, measured.feeding, measured.processor / cores)
    return Run(measured.batches, measured.device, longest, measured.processor, measured.feeding)


def row(name: str, cores: int, how: str, measured: Run, goal: str) -> dict[str, str]:
    """Return a line of the table."""
    batches = measured.batches
    return {
        "metrics": name,
        "cores": str(cores),
        "how": how,
        "images a second": f"{IMAGES * batches / measured.elapsed:.0f}",
        "device busy": f"{measured.busy:.0%}",
        "goal": goal,
        "cores had": f"{measured.processor / measured.elapsed:.2f}" if how == "run" else "",
        "processor s a batch": f"{measured.processor / batches:.2f}",
        "of it feeding": f"{measured.feeding / batches:.2f}",
        "cores for a busy device": f"{measured.processor / batches / measured.device:.0f}",
    }


def main() -> None:
    """Print a table of runs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("photographs", help="a folder of pictures by class, 512 at least")
    parser.add_argument("--network", default="resnet50", help="a name of torchvision")
    parser.add_argument("--seconds", type=float, default=0.2, help="of the device for a batch")
    parser.add_argument("--batches", type=int, default=4, help="of a run")
    arguments = parser.parse_args()
    sites = captured(arguments.network, arguments.photographs, IMAGES)
    recorded = [list(passed) for passed in zip(*sites, strict=True)]
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        images = photographs(arguments.photographs, arguments.network, PixelCache(Path(folder)))
        began = time.process_time()
        for _ in range(IMAGES):
            next(images)
        print(f"decoding: {time.process_time() - began:.2f} processor seconds a batch")
        for name, (metrics, goal) in ROWS.items():
            for cores in RUN:
                device = Device(recorded, arguments.seconds * MICRO_BATCH / IMAGES)
                measured = run(device, images, cores, arguments.batches, metrics)
                rows.append(row(name, cores, "run", measured, ""))
                print(rows[-1], flush=True)
            for cores in COMPUTED:
                wanted = f"over {goal:.0%}" if cores == max(COMPUTED) else ""
                rows.append(row(name, cores, "computed", computed(measured, cores), wanted))
    print(markdown_table(list(rows[0]), [list(each.values()) for each in rows]))


if __name__ == "__main__":
    main()
