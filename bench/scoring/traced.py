"""Benchmark of the graph of a captured pass: its operations, its bits, and what Python takes.

    OMP_NUM_THREADS=1 python -m bench.scoring.traced [--network resnet18] [--images 8] [--size 64]

A captured pass decides nothing by values, so that it can be traced to a graph. Here that is done on
a processor, with means and counts as on a device. The network is torchvision's, with random
weights, on random images; the graph is compared on others than it was traced on. Seconds are the
least of the processor, of a few passes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any
from unittest import mock

import torch
from torch.fx.experimental.proxy_tensor import make_fx

import survey.capture.pooling
from bench.scoring.overhead import built
from docs.generate.tables import markdown_table
from survey.capture.forward import Capture
from survey.capture.near_zero import NearZero, count_by_masks

#: Passes that are timed.
REPEATS = 7

Tensors = Sequence[torch.Tensor]


def counted(tensor: torch.Tensor) -> NearZero:
    """Count the values near zero of a contiguous tensor, as on a device."""
    return count_by_masks(tensor.detach().flatten())


def flat(output: Any, pairs: Sequence[Any]) -> Tensors:
    """Return every tensor that a captured pass leaves."""
    left = [output]
    for pair in pairs:
        left += [pair.x, pair.y, *(each.near for each in (pair.before, pair.after))]
    return left


def seconds(forward: Callable[[torch.Tensor], object], images: torch.Tensor) -> float:
    """Return the least processor seconds of a pass."""
    taken = []
    for _ in range(REPEATS):
        began = time.process_time()
        forward(images)
        taken.append(time.process_time() - began)
    return min(taken)


def main() -> None:
    """Print the table of one network."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--network", default="resnet18", help="a name of torchvision")
    parser.add_argument("--images", type=int, default=8, help="in a pass")
    parser.add_argument("--size", type=int, default=64, help="of a side of an image, in pixels")
    given = parser.parse_args()
    network, _ = built(given.network)
    capture = Capture(network)
    first, other = torch.randn(2, given.images, 3, given.size, given.size)

    def captured(images: torch.Tensor) -> Tensors:
        return flat(*capture.forward(images))

    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode())
        for name, stand_in in (("_is_maps", lambda *_: False), ("count_near_zero", counted)):
            stack.enter_context(mock.patch.object(survey.capture.pooling, name, stand_in))
        graph = make_fx(captured)(first)
        of_network = make_fx(network)(first)
        pairs = zip(captured(other), graph(other), strict=True)
        same = all(torch.equal(one, two) for one, two in pairs)
        rows = [
            ("bare", _operations(of_network), f"{seconds(network, other):.3f}"),
            ("captured", "", f"{seconds(captured, other):.3f}"),
            ("graph of the captured", _operations(graph), f"{seconds(graph, other):.3f}"),
        ]
    print(markdown_table(("pass", "operations", "seconds"), rows))
    print(f"the graph gives the bits of a captured pass: {'yes' if same else 'no'}")


def _operations(graph: torch.fx.GraphModule) -> str:
    return str(sum(node.op == "call_function" for node in graph.graph.nodes))


if __name__ == "__main__":
    main()
