"""Sparsity: the share of values near zero, before and after the activation.

Counted on the tensors as the network has them, not on their averages over space.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from survey.metrics.base import Metric, NoValue, Quantity

if TYPE_CHECKING:
    from survey.metrics.pair import Pair


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


_CHANGE = Quantity(
    name="sparsity_change",
    sentence="Sparsity after minus before, in [-1, 1].",
    formula="sparsity_after - sparsity_before",
    unit="1",
    low=-1.0,
    high=1.0,
    direction="none",
    invariances=frozenset({"images", "pairing", "channels", "channels_output"}),
    source="Bouniot et al. 2025, arXiv:2310.11439, Appendix G",
    compute=sparsity_change,
)

METRIC = Metric(
    "sparsity",
    (
        replace(
            _CHANGE,
            name="sparsity_before",
            sentence="Fraction of unpooled input values within 1e-3 of zero.",
            listed=False,
            formula="share of |x| <= 1e-3",
            low=0.0,
            invariances=_CHANGE.invariances | {"rotation_output", "scale_output", "shift_output"},
            compute=sparsity_before,
        ),
        replace(
            _CHANGE,
            name="sparsity_after",
            sentence="Fraction of unpooled output values within 1e-3 of zero.",
            listed=False,
            formula="share of |y| <= 1e-3",
            low=0.0,
            invariances=_CHANGE.invariances | {"rotation_input", "scale_input", "shift_input"},
            compute=sparsity_after,
        ),
        _CHANGE,
    ),
)
