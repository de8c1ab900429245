"""What timm's authors measured: accuracy on ImageNet by pretrained name and image size.

Owns the table ``timm_results.csv``. Reading it imports neither torch nor timm.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping

from catalog.models.base import Reported
from catalog.models.tables import read_table

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
def _table() -> Mapping[str, list[Reported]]:
    results = defaultdict(list)
    for row in read_table("timm_results.csv"):
        reported = Reported(
            # Percentages of three decimals: division alone would leave digits nobody measured.
            top1=round(float(row["top1"]) / 100, 5),
            top5=round(float(row["top5"]) / 100, 5),
            dataset="imagenet",
            image_size=int(row["image_size"]),
            source=SOURCE,
        )
        results[row["name"]].append(reported)
    return results
