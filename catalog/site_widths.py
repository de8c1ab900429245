"""The widths of a network's activation sites, known before it is measured.

A width is the channels of a site: the columns of its pooled pair. How many images a score needs
depends on them; see ``survey.few_images``.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping

from catalog.model_sites import followed
from catalog.models import find
from catalog.models.cost_table import counted
from survey.settings import Pooling

#: Poolings that leave a column for each channel.
_BY_CHANNEL = ("mean", "pre", "sum")


def listed_widths(full_name: str, pooling: Pooling = "mean") -> Mapping[int, int]:
    """Return how many sites of an architecture have how many channels, from the table of costs.

    Parameters
    ----------
    full_name : str
        The architecture's, such as ``torchvision:resnet50``.
    pooling : {"mean", "pre", "sum", "flatten", "public_code"}
        How tensors become matrices; see ``MeasureSettings``.

    Returns
    -------
    mapping of int to int
        Sites by channels; empty where the table has none.
    """
    known = counted(*full_name.split(":", 1)) if pooling in _BY_CHANNEL else None
    return known.widths if known else {}


@functools.cache
def counted_widths(full_name: str, pooling: Pooling = "mean") -> Mapping[int, int]:
    """Return the same, counted on the network: it is built without data and followed once.

    Sites that cannot be pooled are left out. Empty where the network cannot be followed, and
    measuring it will fail.
    """
    (architecture,) = find(full_name)
    try:
        _, pairs = followed(architecture, lambda capture, images: capture.forward(images), pooling)
    except (Exception, SystemExit):  # noqa: BLE001  # a network is code, and may raise anything
        return {}
    widths = Counter(pair.x.shape[1] for pair in pairs if pair.x is not None)
    return dict(sorted(widths.items()))
