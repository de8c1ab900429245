"""Benchmark of a whole survey beside the bare forward pass, with every metric.

    python -m bench.scoring.overhead PHOTOGRAPHS resnet18 mnasnet1_0

PHOTOGRAPHS is a folder of pictures by class; the networks are torchvision's, with random weights,
or ``all`` of ``TARGETS``. The bare network passes in a process as anyone starts it, the survey in
one that keeps its memory as a worker does, and the bare network in such a one too. Times are those
of the processor, over threads and children; reading and normalising the pictures is left out. With
``--memory`` the greatest resident memory is printed instead, of a process that passes one
micro-batch and of one that surveys all images; the ratio is that of the latter to the former with
the pairs in float32 added. ``--threads`` scores four batches as on an accelerator, while the next
ones pass, so that pairs of three are in memory at a time.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar, get_args
from unittest import mock

import torch
from torch import nn

import survey.measuring
from catalog.datasets import open_dataset
from catalog.models import find
from catalog.models.base import Architecture
from jobs.runners.freed_memory import kept_memory, return_freed_memory
from jobs.runners.images import normalise
from survey import MeasureSettings, measure_batches
from survey.score_queue import AHEAD, Overlap
from survey.settings import Pooling

Result = TypeVar("Result")

#: The greatest ratio of a survey's processor time to that of the bare forward pass.
TARGETS = {
    "resnet50": 1.12,
    "vit_b_16": 1.12,
    "convnext_tiny": 1.12,
    "resnet18": 1.2,
    "mnasnet1_0": 1.45,
    "mobilenet_v3_small": 2.0,
}

#: The greatest ratio of a survey's memory to that of a bare micro-batch and the pairs together.
MOST_MEMORY = 1.3

MICRO_BATCH = 64


@dataclass(frozen=True)
class Case:
    """What is measured in one row."""

    network: str
    folder: str
    #: Images in a score.
    images: int
    pooling: Pooling = "mean"
    #: Threads that score while the next batch passes; 0 where nothing overlaps.
    threads: int = 0

    @property
    def settings(self) -> MeasureSettings:
        """The settings of the survey."""
        return MeasureSettings(self.images, micro_batch=MICRO_BATCH, pooling=self.pooling)

    @property
    def at_once(self) -> int:
        """Batches whose pairs are in memory at the same time."""
        return AHEAD + 1 if self.threads else 1

    @property
    def overlap(self) -> Overlap:
        """How scores and passes overlap."""
        return Overlap(self.threads, AHEAD) if self.threads else Overlap()


def built(name: str) -> tuple[nn.Module, Architecture]:
    """Return a network with random weights, in eval mode, and what it is made from."""
    (architecture,) = find(f"torchvision:{name}")
    torch.manual_seed(0)
    return architecture.build().eval(), architecture


def photographs(folder: str, architecture: Architecture, images: int) -> Iterator[torch.Tensor]:
    """Yield micro-batches of a network's inputs."""
    transform = architecture.transform
    samples = open_dataset(f"folder:{folder}", Path()).samples(transform)
    shown = islice((sample.pixels for sample in samples if sample.pixels is not None), images)
    while pixels := list(islice(shown, MICRO_BATCH)):
        yield normalise(torch.stack(pixels), transform)


def spent() -> float:
    """Return the processor seconds of this process and its children so far."""
    times = os.times()
    return sum(times[:4])


def read(inputs: Iterator[torch.Tensor], reading: list[float]) -> Iterator[torch.Tensor]:
    """Yield inputs and note the seconds that reading each of them takes."""
    while True:
        began = time.thread_time()
        batch = next(inputs, None)
        reading.append(time.thread_time() - began)
        if batch is None:
            return
        yield batch


def prepared(inputs: torch.Tensor) -> torch.Tensor:
    """Return the input of a pass as a worker does."""
    return_freed_memory()
    return inputs


def passing(case: Case, kept: bool) -> float:
    """Return the processor seconds of the bare network's passes."""
    model, architecture = built(case.network)
    reading = list[float]()
    began = spent()
    with kept_memory() if kept else nullcontext(), torch.inference_mode():
        for inputs in read(photographs(case.folder, architecture, case.images), reading):
            model(prepared(inputs) if kept else inputs)
    return spent() - began - sum(reading)


def surveying(case: Case) -> tuple[float, int]:
    """Return the processor seconds of a survey, and its sites."""
    model, architecture = built(case.network)
    reading = list[float]()
    began = spent()
    inputs = read(photographs(case.folder, architecture, case.images), reading)
    with kept_memory():
        (batch,) = measure_batches(model, inputs, case.settings, prepare=prepared)
    return spent() - began - sum(reading), len(batch.scores)


def alone(function: Callable[..., Result], *arguments: object) -> Result:
    """Return what a function returns in a process of its own."""
    with get_context("spawn").Pool(1, initializer=torch.set_num_threads, initargs=(1,)) as process:
        return process.apply(function, arguments)


def ratio(case: Case) -> str:
    """Return a network's line of the table of processor time."""
    bare = alone(passing, case, False)
    survey, sites = alone(surveying, case)
    kept = alone(passing, case, True)
    return (
        f"| {case.network} | {sites} | {bare:.1f} | {survey:.1f} | {survey / bare:.3f} |"
        f" {TARGETS.get(case.network, '')} | {kept:.1f} | {survey / kept:.3f} |"
    )


def peak() -> int:
    """Return the greatest memory of this process, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def peak_passing(case: Case) -> int:
    """Return the greatest memory of a process that passes one micro-batch of the bare network."""
    model, architecture = built(case.network)
    with torch.inference_mode():
        model(next(photographs(case.folder, architecture, MICRO_BATCH)))
    return peak()


def peak_surveying(case: Case) -> tuple[int, int]:
    """Return the greatest memory of a survey, and the bytes of its pairs in float32."""
    model, architecture = built(case.network)
    inputs = photographs(case.folder, architecture, case.images * (4 if case.threads else 1))
    overlap = mock.patch.object(survey.measuring, "overlap_of", return_value=case.overlap)
    with overlap, kept_memory():
        for batch in measure_batches(model, inputs, case.settings, prepare=prepared):
            widths = sum(row.channels or 0 for row in batch.scores)
    return peak(), 2 * 4 * case.images * widths * case.at_once


def memory(case: Case) -> str:
    """Return a network's line of the table of memory."""
    bare = alone(peak_passing, case)
    whole, pairs = alone(peak_surveying, case)
    share = whole / (bare + pairs)
    sizes = " | ".join(str(size >> 20) for size in (bare, pairs, whole))
    return f"| {case.network} | {sizes} | {share:.2f} | {MOST_MEMORY} |"


#: Each kind of row, with the heads of its columns.
KINDS: dict[str, tuple[Callable[..., str], str]] = {
    "time": (
        ratio,
        "network | sites | bare, s | survey, s | ratio | target | bare, kept, s | survey over it",
    ),
    "memory": (memory, "network | bare, MiB | pairs, MiB | survey, MiB | ratio | target"),
}


def main() -> None:
    """Print a row a network."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("photographs", help="a folder of pictures by class")
    parser.add_argument("networks", nargs="+", help="names of torchvision, or all")
    parser.add_argument("--images", type=int, default=512, help="images in a score")
    parser.add_argument("--memory", action="store_true", help="memory instead of time")
    parser.add_argument("--pooling", choices=get_args(Pooling), default="mean", help="over space")
    parser.add_argument("--threads", type=int, default=0, help="that score while batches pass")
    given = parser.parse_args()
    if given.threads and not given.memory:
        parser.error("--threads is for --memory")
    names = list(TARGETS) if given.networks == ["all"] else given.networks
    row, heads = KINDS["memory" if given.memory else "time"]
    print(f"| {heads} |\n|" + "---|" * (heads.count("|") + 1))
    for name in names:
        case = Case(name, given.photographs, given.images, given.pooling, given.threads)
        print(row(case), flush=True)


if __name__ == "__main__":
    main()
