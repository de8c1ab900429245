"""The histogram entropy of an image's channels, before and after the activation.

An image's entropy is that of the histogram of its c pooled values, in c bins of equal width
between its least and its greatest value, plus log c: the published script adds the logarithm of
the number of bins where a differential entropy would add that of their width. The addend is the
same before and after, so that the change does not depend on it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from survey.metrics.base import Metric, NoValue, Quantity

if TYPE_CHECKING:
    import torch

    from survey.metrics.pair import Pair


def entropy_before(pair: Pair) -> float | NoValue:
    """Return the mean entropy of the input's images, in nats."""
    return histogram_entropy(pair.x.values)


def entropy_after(pair: Pair) -> float | NoValue:
    """Return the mean entropy of the output's images, in nats."""
    return histogram_entropy(pair.y.values)


def entropy_change(pair: Pair) -> float | NoValue:
    """Return the entropy after minus the entropy before, in nats."""
    before, after = pair.once(entropy_before), pair.once(entropy_after)
    if isinstance(before, NoValue):
        return before
    return after if isinstance(after, NoValue) else after - before


def histogram_entropy(matrix: torch.Tensor) -> float | NoValue:
    """Return the mean over rows of the entropy of a row's histogram, plus log c, in nats.

    Parameters
    ----------
    matrix : torch.Tensor
        n x c, float64. A row has c bins from its least to its greatest value, the last one
        closed; a constant row falls into a single bin. A value within rounding of an edge may
        fall on either side of it.

    Returns
    -------
    float or NoValue
        In [log c, 2 log c].
    """
    import torch

    n, c = matrix.shape
    # Two passes: ``aminmax`` takes three times as long as both.
    low, high = matrix.amin(dim=1, keepdim=True), matrix.amax(dim=1, keepdim=True)
    width = high - low
    if not bool(torch.isfinite(width).all()):
        return NoValue("an image's range overflows")
    fine = c / torch.where(width > 0, width, 1.0)
    if not bool(torch.isfinite(fine).all()):
        return NoValue("an image's range underflows")
    # All rows in one count: row i's bins are numbered from i c on. The product is at most c and
    # its fraction is cut off; the greatest value itself belongs into the last bin.
    bins = (matrix - low).mul_(fine).clamp_max_(c - 0.5).to(torch.int64)
    bins += torch.arange(0, n * c, c, device=matrix.device)[:, None]
    members = torch.bincount(bins.flatten(), minlength=n * c)
    # With m values in a bin, H = log c - (sum m log m) / c: only how many bins have m matters.
    alike = torch.bincount(members).to(torch.float64)
    sizes = torch.arange(len(alike), dtype=torch.float64, device=matrix.device)
    return 2 * math.log(c) - float(torch.dot(alike, torch.xlogy(sizes, sizes))) / (n * c)


_CHANGE = Quantity(
    name="entropy_change",
    sentence="Entropy after minus before, in nats.",
    formula="entropy_after - entropy_before",
    unit="nat",
    low=-math.inf,
    high=math.inf,
    direction="none",
    invariances=frozenset(
        ("images", "pairing", "channels", "channels_output", "scale", "scale_input", "scale_output")
    ),
    source="Bouniot et al. 2025, arXiv:2310.11439, Appendix G, and its published script",
    compute=entropy_change,
)

METRIC = Metric(
    "entropy",
    (
        replace(
            _CHANGE,
            name="entropy_before",
            sentence="Mean histogram entropy of inputs, plus log c, in nats.",
            listed=False,
            formula="mean over rows of X of H(histogram in c bins) + log c",
            low=0.0,
            invariances=_CHANGE.invariances | {"rotation_output", "shift_output"},
            compute=lambda pair: pair.once(entropy_before),
        ),
        replace(
            _CHANGE,
            name="entropy_after",
            sentence="Mean histogram entropy of outputs, plus log c, in nats.",
            listed=False,
            formula="mean over rows of Y of H(histogram in c bins) + log c",
            low=0.0,
            invariances=_CHANGE.invariances | {"rotation_input", "shift_input"},
            compute=lambda pair: pair.once(entropy_after),
        ),
        _CHANGE,
    ),
)
