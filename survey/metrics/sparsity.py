"""Which share of the values is nearly zero, before and after the activation.

Counted on the tensors as the network has them, not on their averages over space.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from survey.metrics.base import Invariance, Metric, NoValue, Quantity

if TYPE_CHECKING:
    from survey.metrics.pair import Pair

_SOURCE = "Bouniot et al. 2025, arXiv:2310.11439, Appendix G"
_EVERY: frozenset[Invariance] = frozenset({"images", "pairing", "channels", "channels_output"})
_OF_X: frozenset[Invariance] = frozenset({"rotation_output", "scale_output", "shift_output"})
_OF_Y: frozenset[Invariance] = frozenset({"rotation_input", "scale_input", "shift_input"})


def sparsity_before(pair: Pair) -> float | NoValue:
    """Return the share of the unpooled input's values within 1e-3 of zero."""
    return pair.before.fraction if pair.before.values else NoValue("nothing was counted")


def sparsity_after(pair: Pair) -> float | NoValue:
    """Return the share of the unpooled output's values within 1e-3 of zero."""
    return pair.after.fraction if pair.after.values else NoValue("nothing was counted")


def sparsity_change(pair: Pair) -> float | NoValue:
    """Return the share after minus the share before."""
    before, after = sparsity_before(pair), sparsity_after(pair)
    if isinstance(before, NoValue):
        return before
    return after if isinstance(after, NoValue) else after - before


METRIC = Metric(
    "sparsity",
    (
        Quantity(
            name="sparsity_before",
            sentence="Fraction of unpooled input values within 1e-3 of zero.",
            listed=False,
            formula="share of |x| <= 1e-3",
            unit="1",
            low=0.0,
            high=1.0,
            direction="none",
            invariances=_EVERY | _OF_X,
            source=_SOURCE,
            least_images=2,
            compute=sparsity_before,
        ),
        Quantity(
            name="sparsity_after",
            sentence="Fraction of unpooled output values within 1e-3 of zero.",
            listed=False,
            formula="share of |y| <= 1e-3",
            unit="1",
            low=0.0,
            high=1.0,
            direction="none",
            invariances=_EVERY | _OF_Y,
            source=_SOURCE,
            least_images=2,
            compute=sparsity_after,
        ),
        Quantity(
            name="sparsity_change",
            sentence="Sparsity after minus before, in [-1, 1].",
            formula="sparsity_after - sparsity_before",
            unit="1",
            low=-1.0,
            high=1.0,
            direction="none",
            invariances=_EVERY,
            source=_SOURCE,
            least_images=2,
            compute=sparsity_change,
        ),
    ),
)
