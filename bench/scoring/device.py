"""Benchmark of a worker on an accelerator: images a second, and how busy the device is.

    python -m bench.scoring.device PHOTOGRAPHS [NETWORK ...] [--micro-batches 64 512]

It needs a device that torch sees; ``bench.scoring.accelerator`` does without. The networks are
torchvision's, with random weights. Each passes batches of 512 photographs out of the cache of
decoded ones, as a worker does: pinned, copied, normalised, captured, and scored by threads.

A device is busy for the seconds that the bare network takes for a batch that lies on it, by the
device's own clock. "captured" is the same of a captured pass, "enqueued" what the host takes to
enqueue it: a device whose passes are enqueued more slowly than it computes them waits.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from torch import nn

from bench.scoring.accelerator import IMAGES, ROWS, photographs
from catalog.models import find
from catalog.pixel_cache.cache import PixelCache
from docs.generate.tables import markdown_table
from jobs.runners.images import prepared
from survey import MeasureSettings, measure_batches
from survey.capture.forward import Capture
from survey.eval_mode import evaluating

#: Times that a batch is passed for its seconds.
REPEATS = 3


def passed(forward: Callable[[torch.Tensor], object], micros: list[torch.Tensor]) -> list[float]:
    """Return the least seconds of a batch, by the device and of the host until it is enqueued."""
    taken = []
    for _ in range(REPEATS + 1):
        torch.cuda.synchronize()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began = time.perf_counter()
        begin.record()
        for micro in micros:
            forward(micro)
        end.record()
        enqueued = time.perf_counter() - began
        torch.cuda.synchronize()
        taken.append((begin.elapsed_time(end) / 1000, enqueued))
    # The first one chooses algorithms and allocates.
    return [min(each) for each in zip(*taken[1:], strict=True)]


def run(
    network: nn.Module,
    images: Iterator[torch.Tensor],
    settings: MeasureSettings,
    prepare: Callable[[torch.Tensor], torch.Tensor],
    batches: int,
) -> tuple[float, float, float]:
    """Return seconds, processor seconds and those of the feeding thread, a batch."""
    for _ in measure_batches(network, images, settings, stop_batch=1, prepare=prepare):
        # Libraries are loaded now, and algorithms chosen.
        pass
    began = time.perf_counter(), time.process_time(), time.thread_time()
    for _ in measure_batches(network, images, settings, stop_batch=batches, prepare=prepare):
        pass
    ended = time.perf_counter(), time.process_time(), time.thread_time()
    elapsed, processor, feeding = (
        (after - before) / batches for before, after in zip(began, ended, strict=True)
    )
    return elapsed, processor, feeding


def rows_of(
    name: str, images: Iterator[torch.Tensor], arguments: argparse.Namespace
) -> Iterator[dict[str, str]]:
    """Yield the lines of one network."""
    (architecture,) = find(f"torchvision:{name}")
    device = torch.device("cuda")
    torch.manual_seed(0)
    network = architecture.build().to(device)
    prepare = partial(prepared, transform=architecture.transform, device=device)
    capture = Capture(network)
    for size in arguments.micro_batches:
        shown = torch.cat(list(islice(images, IMAGES)))
        with evaluating(network), torch.inference_mode():
            micros = [prepare(part) for part in shown.split(size)]
            bare, _ = passed(network, micros)
            captured, enqueued = passed(capture.forward, micros)
        del micros
        for metrics, (chosen, goal) in ROWS.items():
            settings = MeasureSettings(IMAGES, size, metrics=chosen)
            for threads in arguments.threads:
                torch.set_num_threads(threads)
                taken, processor, feeding = run(
                    network, images, settings, prepare, arguments.batches
                )
                yield {
                    "network": name,
                    "micro-batch": str(size),
                    "bare s": f"{bare:.3f}",
                    "captured s": f"{captured:.3f}",
                    "enqueued s": f"{enqueued:.3f}",
                    "metrics": metrics,
                    "threads": str(threads),
                    "images a second": f"{IMAGES / taken:.0f}",
                    "device busy": f"{bare / taken:.0%}",
                    "goal": f"over {goal:.0%}",
                    "processor s": f"{processor:.2f}",
                    "of it feeding": f"{feeding:.2f}",
                }


def main() -> None:
    """Print a table of networks, micro-batches, metrics and threads."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("photographs", help="a folder of pictures by class, 512 at least")
    parser.add_argument("networks", nargs="*", default=["resnet50"], help="names of torchvision")
    parser.add_argument("--micro-batches", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--threads", type=int, nargs="+", default=[16], help="that score")
    parser.add_argument("--batches", type=int, default=6, help="of a run, after a first one")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("torch sees no device; bench.scoring.accelerator has a stand-in")
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    print(torch.cuda.get_device_name(), "torch", torch.__version__, flush=True)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        cache = PixelCache(Path(folder))
        for name in arguments.networks:
            for row in rows_of(name, photographs(arguments.photographs, name, cache), arguments):
                rows.append(row)
                print(list(row.values()), flush=True)
    print(markdown_table(list(rows[0]), [list(each.values()) for each in rows]))


if __name__ == "__main__":
    main()
