"""The path lengths of torchvision's architectures, as ``docs/path-length.md``.

Networks have no weights where they can be built without; nothing is downloaded. On one core the
whole table takes about two minutes of processor time.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import torch
from torch import nn

from catalog.models.base import Architecture
from catalog.models.torchvision import TorchvisionSource
from docs.generate.tables import markdown_table
from survey import measure_network

HEAD = """# Path lengths of torchvision's architectures

Made by `python bench/path_length.py --output docs/path-length.md`: the average path length with
every activation active, at each architecture's own input size ([measures.md](measures.md)). Seconds
are processor time on one core.

"""

COLUMNS = ["architecture", "walk", "all paths", "log10 of paths", "conventions", "reason", "s"]


def network(architecture: Architecture) -> nn.Module:
    """Return an architecture's network, without values where its builder computes with none."""
    try:
        with torch.device("meta"):
            return architecture.build().eval()
    except NotImplementedError:
        return architecture.build().eval()


def row(architecture: Architecture) -> list[str]:
    """Return one line of the table."""
    model, size = network(architecture), architecture.transform.size
    began = time.process_time()
    scores = measure_network(model, (3, size, size), ["path_length"])
    seconds = time.process_time() - began
    walk, plain = scores["path_length_normalised"], scores["path_length"]
    if walk.value is None or plain.value is None:
        return [architecture.name, "", "", "", "", str(walk.reason), f"{seconds:.1f}"]
    paths = walk.details.get("log10_paths")
    conventions = walk.details.get("conventions", {})
    assert isinstance(paths, float)
    assert isinstance(conventions, dict)
    assert math.isfinite(paths)
    values = [f"{walk.value:.3f}", f"{plain.value:.3f}", f"{paths:.1f}"]
    return [architecture.name, *values, ", ".join(conventions), "", f"{seconds:.1f}"]


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    source = TorchvisionSource()
    rows = [row(source.get(name)) for name in sorted(source.names())]
    options.output.write_text(HEAD + markdown_table(COLUMNS, rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
