"""The Frobenius norm of the difference between pooled input and output."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from survey.metrics.base import Metric, Quantity

if TYPE_CHECKING:
    from survey.metrics.pair import Pair


def norm(pair: Pair) -> float:
    """Return the Frobenius norm of X - Y."""
    import torch

    return float(torch.linalg.vector_norm(pair.x.values - pair.y.values))


def norm_per_element(pair: Pair) -> float:
    """Return the norm divided by the square root of the number of elements."""
    return pair.once(norm) / math.sqrt(pair.images * pair.channels)


def norm_relative(pair: Pair) -> float:
    """Return the norm divided by that of the input."""
    import torch

    return pair.once(norm) / float(torch.linalg.vector_norm(pair.x.values))


_NORM = Quantity(
    name="norm",
    sentence="Frobenius norm of input minus output; grows as sqrt(n c).",
    listed=False,
    formula="|X - Y|",
    unit="of X",
    low=0.0,
    high=math.inf,
    direction="lower",
    invariances=frozenset({"images", "channels", "rotation", "shift", "swap"}),
    source="Bouniot et al. 2025, arXiv:2310.11439, Appendix G",
    compute=lambda pair: pair.once(norm),
)

METRIC = Metric(
    "norm",
    (
        _NORM,
        replace(
            _NORM,
            name="norm_per_element",
            sentence="The norm over sqrt(n c).",
            formula="|X - Y| / sqrt(n c)",
            source=f"{_NORM.source}, made comparable between sites",
            compute=norm_per_element,
        ),
        replace(
            _NORM,
            name="norm_relative",
            heading="relative norm",
            sentence="The norm over the input's own norm.",
            listed=True,
            formula="|X - Y| / |X|",
            unit="1",
            invariances=frozenset({"images", "channels", "rotation", "scale"}),
            source=f"{_NORM.source}, made comparable between scales",
            compute=norm_relative,
        ),
    ),
)
