"""Count every network's parameters, FLOPs, depth and widths into catalog/models/tables/costs.csv.

Command: ``python bench/costs.py`` counts what the table lacks or what another version of a
library had, and drops networks that are no longer there; ``python bench/costs.py NAME...`` counts
the named ones again, such as ``timm:resnet50``. All of them take about 25 minutes on one core and
little memory: networks are built and run without data, on torch's meta device. The table is
rewritten after every 25 networks, so an interrupted count goes on where it was.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import timm
import torch
import torchvision
from torch import nn

from catalog.models.cifar import CifarSource
from catalog.models.counting import model_cost, weighted_depth
from catalog.models.tables import FOLDER, read_table
from catalog.models.timm import TimmSource
from catalog.models.torchvision import TorchvisionSource
from catalog.site_widths import counted_widths
from survey import __version__

SOURCES = {source.name: source for source in (TorchvisionSource(), TimmSource(), CifarSource())}

VERSIONS = {
    "small": f"survey {__version__}",
    "timm": f"timm {timm.__version__}",
    "torchvision": f"torchvision {torchvision.__version__.partition('+')[0]}",
}

TABLE = Path(str(FOLDER / "costs.csv"))

Row = dict[str, str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    named = set(parser.parse_args().names)
    # Networks warn about how they are built.
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows = dict(kept(named))
    began, failed = time.perf_counter(), []
    for source, name in all_names():
        if (source, name) in rows or (named and f"{source}:{name}" not in named):
            continue
        try:
            rows[source, name] = count(source, name)
        except Exception as error:  # noqa: BLE001  # what cannot be counted is listed at the end
            failed.append(f"{source}:{name}: {type(error).__name__}: {str(error)[:200]}")
        if len(rows) % 25 == 0:
            write(rows)
            print(f"{time.perf_counter() - began:7.1f} s  {len(rows)} counted", flush=True)
    write(rows)
    print(f"{time.perf_counter() - began:7.1f} s  {len(rows)} counted, {len(failed)} not:")
    print("\n".join(failed))
    sys.exit(1 if failed else 0)


def kept(named: set[str]) -> Iterator[tuple[tuple[str, str], Row]]:
    """Yield the rows of the table that still hold."""
    names = set(all_names())
    for row in read_table(TABLE.name) if TABLE.exists() else ():
        key = row["source"], row["name"]
        holds = key in names and row["library"] == VERSIONS[key[0]]
        if ":".join(key) not in named if named else holds:
            yield key, row


def write(rows: dict[tuple[str, str], Row]) -> None:
    partial = TABLE.with_suffix(".partial")
    with partial.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, next(iter(rows.values())), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows))
    partial.replace(TABLE)


def all_names() -> list[tuple[str, str]]:
    names = [(source.name, name) for source in SOURCES.values() for name in source.names()]
    return [(source, name) for source, name in names if source != "timm" or is_square(name)]


def is_square(name: str) -> bool:
    """Return whether a network of timm takes square images; no transform gives others."""
    config = timm.get_pretrained_cfg(name)
    return config is None or config.input_size[1] == config.input_size[2]


def count(source: str, name: str) -> Row:
    """Count one network at the size of its first published weights."""
    architecture = SOURCES[source].get(name)
    model, size = without_data(architecture.build), architecture.transform.size
    image = torch.zeros(1, 3, size, size, device="meta")
    cost = model_cost(model, (3, size, size))
    return {
        "source": source,
        "name": name,
        "size": str(size),
        "parameters": str(cost.parameters),
        "gflops": f"{cost.gflops:.6f}",
        "depth": str(weighted_depth(model, image)),
        "library": VERSIONS[source],
        "widths": " ".join(f"{c}:{n}" for c, n in counted_widths(architecture.full_name).items()),
    }


def without_data(build: Callable[[], nn.Module]) -> nn.Module:
    """Build a network on the meta device, in eval mode."""
    try:
        with torch.device("meta"):
            return build().eval()
    except (NotImplementedError, RuntimeError):
        # Some networks compute their widths with tensors, so they need data for those.
        with weights_without_data():
            return build().to("meta").eval()


@contextmanager
def weights_without_data() -> Iterator[None]:
    """Let layers draw their weights into memory that is not there; other tensors are ordinary."""
    plain = torch.empty

    def empty(*size: Any, **options: Any) -> torch.Tensor:
        return plain(*size, **{**options, "device": "meta"})

    torch.empty = empty
    try:
        yield
    finally:
        torch.empty = plain


if __name__ == "__main__":
    main()
