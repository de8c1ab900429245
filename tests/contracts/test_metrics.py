"""Every metric keeps the contract."""

from __future__ import annotations

import pytest

from survey.contract_tests.metric import CHANGES, MetricContract
from survey.metrics import METRICS
from survey.metrics.base import INVARIANCES, Metric


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
class TestMetrics(MetricContract):
    @pytest.fixture(autouse=True)
    def _metric(self, metric: Metric) -> None:
        self.metric = metric


def test_every_invariance_has_a_meaning_and_a_change_that_tests_it() -> None:
    assert list(CHANGES) == list(INVARIANCES)
