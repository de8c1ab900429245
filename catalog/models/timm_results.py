"""What timm's authors measured: accuracy on ImageNet by pretrained name and image size.

Owns the table ``timm_results.csv``. Reading it imports neither torch nor timm.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

from catalog.models.base import Reported

#: Top-1 and top-5 in percent of ImageNet's validation images.
TABLE = files("catalog.models") / "tables" / "timm_results.csv"

#: Where the table has its figures from; its first line says the same at length.
SOURCE = "pytorch-image-models results-imagenet.csv, commit aa4b585"


def reported_for(name: str, size: int) -> tuple[Reported, ...]:
    """Return what was measured for a pretrained name, at the given image size first.

    Parameters
    ----------
    name : str
        Such as ``resnet50.a1_in1k``.
    size : int
        Side of the images that a run would show the network, in pixels.

    Returns
    -------
    tuple of Reported
        One for every size measured; empty for a name that nobody measured.
    """
    return tuple(sorted(_table().get(name, ()), key=lambda each: each.image_size != size))


@functools.cache
def _table() -> Mapping[str, tuple[Reported, ...]]:
    results: dict[str, tuple[Reported, ...]] = {}
    with TABLE.open(encoding="utf-8") as stream:
        rows = csv.DictReader(line for line in stream if not line.startswith("#"))
        for row in rows:
            results[row["name"]] = (*results.get(row["name"], ()), _reported(row))
    return MappingProxyType(results)


def _reported(row: Mapping[str, str]) -> Reported:
    return Reported(
        # Percentages of three decimals: division alone would leave digits nobody measured.
        top1=round(float(row["top1"]) / 100, 5),
        top5=round(float(row["top5"]) / 100, 5),
        dataset="imagenet",
        image_size=int(row["image_size"]),
        source=SOURCE,
    )
