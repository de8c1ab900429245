"""What ``survey show`` states of a run."""

from __future__ import annotations

import pytest

from jobs.operations.show import reached
from tests.catalog.records import run


@pytest.mark.parametrize(
    ("batches", "error", "enough"),
    [(4, 0.0, True), (4, 0.01, True), (4, 0.02, False), (4, None, False), (1, 0.0, False)],
)
def test_a_precision_is_reached_by_a_standard_error_up_to_it(
    batches: int, error: float | None, enough: bool
) -> None:
    wanted = run(precision=0.01, least_batches=2, batches=batches, reached_precision=error)
    assert reached(wanted) is enough
