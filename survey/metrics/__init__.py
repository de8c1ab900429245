"""Every metric of an activation site, one file each."""

from __future__ import annotations

from survey.metrics import affinity, cka, entropy, norm, r2, sparsity
from survey.metrics.base import Metric, Quantity

#: In the order of the result's columns.
METRICS: tuple[Metric, ...] = (
    affinity.METRIC,
    cka.METRIC,
    norm.METRIC,
    sparsity.METRIC,
    entropy.METRIC,
    r2.METRIC,
)

#: Every column that is a metric's, in order.
QUANTITIES: tuple[Quantity, ...] = tuple(
    quantity for metric in METRICS for quantity in metric.quantities
)
