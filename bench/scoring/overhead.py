"""Benchmark of a whole survey beside the bare forward pass, with every metric.

    python -m bench.scoring.overhead PHOTOGRAPHS resnet18 mnasnet1_0

PHOTOGRAPHS is a folder of pictures by class; the networks are torchvision's, with random weights,
or ``all`` of ``TARGETS``. Of each micro-batch the bare network passes first, then the survey takes
it: both see the same machine. Times are those of the processor, over threads and children; reading
and normalising the pictures is left out. With ``--memory`` the greatest resident memory is printed
instead, of a process that passes one micro-batch and of one that surveys all images; the ratio is
that of the latter to the former with the pairs in float32 added.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable, Iterator
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

import torch
from torch import nn

from catalog.datasets import open_dataset
from catalog.models import find
from catalog.models.base import Architecture
from jobs.runners.images import normalise
from survey import MeasureSettings, measure

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


class Bare:
    """Inputs of a survey, passed bare before they are handed on, with the seconds of both."""

    def __init__(self, model: nn.Module, inputs: Iterator[torch.Tensor]) -> None:
        self._model = model
        self._inputs = inputs
        self.passing = 0.0
        self.reading = 0.0

    def __iter__(self) -> Iterator[torch.Tensor]:
        """Yield the inputs."""
        while True:
            began = time.thread_time()
            inputs = next(self._inputs, None)
            read = time.thread_time()
            self.reading += read - began
            if inputs is None:
                return
            with torch.inference_mode():
                self._model(inputs.clone())
            self.passing += time.thread_time() - read
            yield inputs


def ratio(name: str, folder: str, images: int) -> str:
    """Return a network's line of the table of processor time."""
    model, architecture = built(name)
    bare = Bare(model, photographs(folder, architecture, images))
    settings = MeasureSettings(images_per_score=images, micro_batch=MICRO_BATCH)
    began = spent()
    sites = len(list(measure(model, bare, settings)))
    surveyed = spent() - began - bare.passing - bare.reading
    return (
        f"| {name} | {sites} | {bare.passing:.1f} | {surveyed:.1f} |"
        f" {surveyed / bare.passing:.3f} | {TARGETS.get(name, '')} |"
    )


def peak(name: str, folder: str, images: int, *, scored: bool) -> tuple[int, int]:
    """Return this process's greatest memory, and the bytes of the pairs in float32."""
    model, architecture = built(name)
    inputs = photographs(folder, architecture, images if scored else MICRO_BATCH)
    pairs = 0
    if scored:
        settings = MeasureSettings(images_per_score=images, micro_batch=MICRO_BATCH)
        pairs = sum(
            2 * 4 * images * (row.channels or 0) for row in measure(model, inputs, settings)
        )
    else:
        with torch.inference_mode():
            model(next(inputs))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, pairs


def memory(name: str, folder: str, images: int) -> str:
    """Return a network's line of the table of memory."""
    fresh = get_context("spawn")
    with fresh.Pool(1, maxtasksperchild=1) as alone:
        bare, _ = alone.apply(peak, (name, folder, images), {"scored": False})
        whole, pairs = alone.apply(peak, (name, folder, images), {"scored": True})
    share = whole / (bare + pairs)
    return (
        f"| {name} | {bare >> 20} | {pairs >> 20} | {whole >> 20} | {share:.2f} | {MOST_MEMORY} |"
    )


#: Each kind of row, with the heads of its columns.
KINDS: dict[str, tuple[Callable[[str, str, int], str], str]] = {
    "time": (ratio, "network | sites | bare, s | survey, s | ratio | target"),
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
    torch.set_num_threads(1)
    names = list(TARGETS) if arguments.networks == ["all"] else arguments.networks
    row, heads = KINDS["memory" if arguments.memory else "time"]
    print(f"| {heads} |\n|" + "---|" * 6)
    for name in names:
        print(row(name, arguments.photographs, arguments.images), flush=True)


if __name__ == "__main__":
    main()
