"""How far the pooled output lies from the pooled input, in the Frobenius norm."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from survey.metrics.base import Metric, NoValue, Quantity

if TYPE_CHECKING:
    from survey.metrics.pair import Pair

_SOURCE = "Bouniot et al. 2025, arXiv:2310.11439, Appendix G"


def norm(pair: Pair) -> float:
    """Return the Frobenius norm of X - Y."""
    import torch

    return float(torch.linalg.vector_norm(pair.x.values - pair.y.values))


def norm_per_element(pair: Pair) -> float:
    """Return the norm over the square root of the number of elements."""
    return pair.once(norm) / math.sqrt(pair.images * pair.channels)


def norm_relative(pair: Pair) -> float | NoValue:
    """Return the norm over the input's own."""
    import torch

    size = float(torch.linalg.vector_norm(pair.x.values))
    return pair.once(norm) / size if size > 0.0 else NoValue("the input is zero")


METRIC = Metric(
    "norm",
    (
        Quantity(
            name="norm",
            sentence="Frobenius norm of input minus output; grows as sqrt(n c).",
            listed=False,
            formula="|X - Y|",
            unit="of X",
            low=0.0,
            high=math.inf,
            direction="lower",
            invariances=frozenset({"images", "channels", "rotation", "shift", "swap"}),
            source=_SOURCE,
            least_images=2,
            compute=lambda pair: pair.once(norm),
        ),
        Quantity(
            name="norm_per_element",
            sentence="The norm over sqrt(n c).",
            listed=False,
            formula="|X - Y| / sqrt(n c)",
            unit="of X",
            low=0.0,
            high=math.inf,
            direction="lower",
            invariances=frozenset({"images", "channels", "rotation", "shift", "swap"}),
            source=f"{_SOURCE}, made comparable between sites",
            least_images=2,
            compute=norm_per_element,
        ),
        Quantity(
            name="norm_relative",
            heading="relative norm",
            sentence="The norm over the input's own norm.",
            formula="|X - Y| / |X|",
            unit="1",
            low=0.0,
            high=math.inf,
            direction="lower",
            invariances=frozenset({"images", "channels", "rotation", "scale"}),
            source=f"{_SOURCE}, made comparable between scales",
            least_images=2,
            compute=norm_relative,
        ),
    ),
)
