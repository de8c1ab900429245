"""Every metric keeps the contract."""

from __future__ import annotations

from survey.metrics import METRICS, affinity, cka, entropy, norm, r2, sparsity
from tests.contracts.metrics import (
    MetricContract,
    test_every_invariance_has_a_change_that_tests_it,
)

__all__ = ["test_every_invariance_has_a_change_that_tests_it"]


class TestAffinity(MetricContract):
    metric = affinity.METRIC


class TestCka(MetricContract):
    metric = cka.METRIC


class TestNorm(MetricContract):
    metric = norm.METRIC


class TestSparsity(MetricContract):
    metric = sparsity.METRIC


class TestEntropy(MetricContract):
    metric = entropy.METRIC


class TestR2(MetricContract):
    metric = r2.METRIC


def test_every_metric_is_under_contract() -> None:
    tested = {kept.metric.name for kept in MetricContract.__subclasses__()}
    assert tested == {metric.name for metric in METRICS}
