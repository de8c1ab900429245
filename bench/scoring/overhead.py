"""Benchmark of a whole survey beside the bare forward pass, with every metric.

    python -m bench.scoring.overhead PHOTOGRAPHS resnet18 mnasnet1_0

PHOTOGRAPHS is a folder of pictures by class; the networks are torchvision's, with random weights,
or ``all`` of ``TARGETS``. The bare network passes in a process as anyone starts it, the survey in
one that keeps its memory as a worker does, and the bare network in such a one too. Times are those
of the processor, over threads and children; reading and normalising the pictures is left out. With
``--memory`` the greatest resident memory is printed instead, of a process that passes one
micro-batch and of one that surveys all images; the ratio is that of the latter to the former with
the pairs in float32 added.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import torch
from torch import nn

from catalog.datasets import open_dataset
from catalog.models import find
from catalog.models.base import Architecture
from jobs.runners.freed_memory import kept_memory, return_freed_memory
from jobs.runners.images import normalise
from survey import MeasureSettings, measure_batches

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


def passing(name: str, folder: str, images: int, kept: bool) -> float:
    """Return the processor seconds of the bare network's passes."""
    model, architecture = built(name)
    reading = list[float]()
    began = spent()
    with kept_memory() if kept else nullcontext(), torch.inference_mode():
        for inputs in read(photographs(folder, architecture, images), reading):
            model(prepared(inputs) if kept else inputs)
    return spent() - began - sum(reading)


def surveying(name: str, folder: str, images: int) -> tuple[float, int]:
    """Return the processor seconds of a survey, and its sites."""
    model, architecture = built(name)
    reading = list[float]()
    settings = MeasureSettings(images_per_score=images, micro_batch=MICRO_BATCH)
    began = spent()
    inputs = read(photographs(folder, architecture, images), reading)
    with kept_memory():
        (batch,) = measure_batches(model, inputs, settings, prepare=prepared)
    return spent() - began - sum(reading), len(batch.scores)


def alone(function: Callable[..., Result], *arguments: object) -> Result:
    """Return what a function returns in a process of its own."""
    with get_context("spawn").Pool(1, initializer=torch.set_num_threads, initargs=(1,)) as process:
        return process.apply(function, arguments)


def ratio(*case: object) -> str:
    """Return a network's line of the table of processor time."""
    name, *_ = case
    bare = alone(passing, *case, False)
    survey, sites = alone(surveying, *case)
    kept = alone(passing, *case, True)
    return (
        f"| {name} | {sites} | {bare:.1f} | {survey:.1f} | {survey / bare:.3f} |"
        f" {TARGETS.get(str(name), '')} | {kept:.1f} | {survey / kept:.3f} |"
    )


def peak(name: str, folder: str, images: int, scored: bool) -> tuple[int, int]:
    """Return this process's greatest memory, and the bytes of the pairs in float32."""
    model, architecture = built(name)
    inputs = photographs(folder, architecture, images if scored else MICRO_BATCH)
    pairs = 0
    if scored:
        settings = MeasureSettings(images_per_score=images, micro_batch=MICRO_BATCH)
        with kept_memory():
            (batch,) = measure_batches(model, inputs, settings, prepare=prepared)
        pairs = sum(2 * 4 * images * (row.channels or 0) for row in batch.scores)
    else:
        with torch.inference_mode():
            model(next(inputs))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, pairs


def memory(*case: object) -> str:
    """Return a network's line of the table of memory."""
    bare, _ = alone(peak, *case, False)
    whole, pairs = alone(peak, *case, True)
    share = whole / (bare + pairs)
    sizes = " | ".join(str(size >> 20) for size in (bare, pairs, whole))
    return f"| {case[0]} | {sizes} | {share:.2f} | {MOST_MEMORY} |"


#: Each kind of row, with the heads of its columns.
KINDS: dict[str, tuple[Callable[..., str], str]] = {
    "time": (
        ratio,
        "network | sites | bare, s | survey, s | ratio | target | bare, kept, s | survey over it",
    ),
    "memory": (memory, "network | bare, MB | pairs, MB | survey, MB | ratio | target"),
}


def main() -> None:
    """Print a row a network."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("photographs", help="a folder of pictures by class")
    parser.add_argument("networks", nargs="+", help="names of torchvision, or all")
    parser.add_argument("--images", type=int, default=512, help="images in a score")
    parser.add_argument("--memory", action="store_true", help="memory instead of time")
    arguments = parser.parse_args()
    names = list(TARGETS) if arguments.networks == ["all"] else arguments.networks
    row, heads = KINDS["memory" if arguments.memory else "time"]
    print(f"| {heads} |\n|" + "---|" * (heads.count("|") + 1))
    for name in names:
        print(row(name, arguments.photographs, arguments.images), flush=True)


if __name__ == "__main__":
    main()
