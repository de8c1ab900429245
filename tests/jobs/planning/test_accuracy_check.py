"""A run is suspect when its accuracy is not what its weights should show, and only then."""

from __future__ import annotations

import pytest

from catalog.models.base import Reported
from jobs.planning.accuracy_check import (
    MARGIN,
    Expectation,
    allowed_difference,
    expectation,
    suspicion,
)

LINEAR = Reported(top1=0.75, dataset="imagenet", protocol="linear", source="its authors")
SUPERVISED = Reported(top1=0.8, dataset="imagenet", source="torchvision")


@pytest.mark.parametrize(
    ("dataset", "counts"),
    [
        ("imagenet", True),
        ("imagenet:PATH", True),
        ("imagenet:PATH[:5000 stratified]", True),
        ("folder:imagenet", False),
        ("imagenet-sample", False),
        ("cifar10", False),
    ],
)
def test_a_report_counts_on_its_own_dataset_alone(dataset: str, counts: bool) -> None:
    expected = expectation(dataset, None, (LINEAR, SUPERVISED))
    assert (expected == Expectation(0.8, "torchvision")) is counts
    assert (expected is None) is not counts


def test_what_a_probe_gave_is_not_expected_of_the_network() -> None:
    assert expectation("imagenet", None, (LINEAR,)) is None


def test_what_the_survey_declares_goes_first() -> None:
    assert expectation("imagenet", 0.5, (SUPERVISED,)) == Expectation(0.5, "declared")


def test_the_allowance_is_a_margin_and_three_standard_errors() -> None:
    assert allowed_difference(0.5, 10_000) == pytest.approx(MARGIN + 3 * 0.005)
    assert allowed_difference(1.0, 10) == MARGIN


@pytest.mark.parametrize("sign", [-1, 1])
def test_differences_either_way_are_suspect_beyond_the_allowance(sign: int) -> None:
    expected = Expectation(0.8, "declared")
    allowed = allowed_difference(0.8, 1000)
    assert suspicion(expected, 0.8 + sign * (allowed - 1e-6), 1000) is None
    found = suspicion(expected, 0.8 + sign * (allowed + 1e-6), 1000)
    assert found is not None
    assert "0.8000" in found


def test_labels_that_do_not_fit_are_suspect_where_accuracy_is_expected() -> None:
    assert suspicion(None, None, 100) is None
    assert "no labels fit" in (suspicion(Expectation(0.8, "declared"), None, 100) or "")
