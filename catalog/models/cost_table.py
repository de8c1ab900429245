"""What networks cost at their own input size, as counted beforehand on the real networks.

Owns the table ``costs.csv``, which ``bench/costs.py`` writes. Reading it imports neither torch
nor the library that a network comes from. What a run records is counted again on the network
that was measured (``catalog.models.counting``).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from catalog.models.tables import read_table

if TYPE_CHECKING:
    from catalog.models.base import Architecture


@dataclass(frozen=True, slots=True)
class CountedCost:
    """A network's size and work, counted on the network as this product builds it."""

    #: Side of the image that the work was counted on, in pixels.
    size: int
    #: Number of parameters, shared ones once, those of idle auxiliary heads included.
    parameters: int
    #: Billions of multiply-adds of convolutions and matrix products for one image.
    gflops: float
    #: Convolutions and matrix products with weights on the longest path through the network.
    depth: int
    #: The package and the version it was built with, such as ``timm 1.0.31``.
    library: str
    #: Activation sites by their channels; empty where the network cannot be followed.
    widths: Mapping[int, int] = field(default_factory=dict)


def counted(source: str, name: str) -> CountedCost | None:
    """Return what an architecture costs, such as torchvision's resnet50; None if not counted."""
    return _table().get((source, name))


def cost_of(architecture: Architecture) -> CountedCost:
    """Return what an architecture costs, counted on the spot where the table lacks it.

    Parameters
    ----------
    architecture : Architecture
        It is built, at the price of its weights in memory, and run once on an empty image.

    Raises
    ------
    CatalogError
        If the network fails on that image.
    """
    known = counted(architecture.source, architecture.name)
    if known is not None:
        return known
    import torch

    from catalog.models.base import failing
    from catalog.models.counting import model_cost, weighted_depth

    shape = architecture.transform.shape
    with torch.random.fork_rng(devices=[]):
        model = architecture.build().eval()
    try:
        cost = model_cost(model, shape)
        depth = weighted_depth(model, torch.zeros(1, *shape))
    except Exception as problem:
        raise failing(architecture, problem) from problem
    *_, size = shape
    return CountedCost(size, cost.parameters, cost.gflops, depth, "this machine")


@functools.cache
def _table() -> dict[tuple[str, str], CountedCost]:
    return {
        (row["source"], row["name"]): CountedCost(
            size=int(row["size"]),
            parameters=int(row["parameters"]),
            gflops=float(row["gflops"]),
            depth=int(row["depth"]),
            library=row["library"],
            widths=_widths(row["widths"]),
        )
        for row in read_table("costs.csv")
    }


def _widths(text: str) -> dict[int, int]:
    """Return sites by channels, of a text such as ``64:6 128:4``."""
    pairs = (each.split(":") for each in text.split())
    return {int(channels): int(sites) for channels, sites in pairs}
