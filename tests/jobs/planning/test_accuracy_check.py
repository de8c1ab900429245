"""A run is suspect when its accuracy is not what its weights should show, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.models.base import Reported
from jobs.planning.accuracy_check import MARGIN, Expectation, expectation, suspicion
from jobs.planning.definition import parse_definition
from jobs.planning.holdings import Holdings
from jobs.planning.plan import make_plan

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


@pytest.mark.parametrize(
    ("top1", "images", "sign", "allowed"),
    [
        # A margin and three standard errors of a proportion, which none has that is 1.
        (0.5, 10_000, -1, MARGIN + 3 * 0.005),
        (0.5, 10_000, 1, MARGIN + 3 * 0.005),
        (0.8, 1600, 1, MARGIN + 3 * 0.01),
        (1.0, 10, -1, MARGIN),
    ],
)
def test_differences_either_way_are_suspect_beyond_the_allowance(
    top1: float, images: int, sign: int, allowed: float
) -> None:
    expected = Expectation(top1, "declared")
    assert suspicion(expected, top1 + sign * (allowed - 1e-6), images) is None
    assert f"{top1:.4f}" in (suspicion(expected, top1 + sign * (allowed + 1e-6), images) or "")


def test_labels_that_do_not_fit_are_suspect_where_accuracy_is_expected() -> None:
    assert suspicion(None, None, 100) is None
    assert "0.8000" in (suspicion(Expectation(0.8, "declared"), None, 100) or "")


def test_nothing_is_expected_of_random_weights() -> None:
    model = {"name": "small:digits_vgg7", "checkpoints": ["bundled", "init:0"]}
    values = {
        "models": [{**model, "expect_top1": {"digits": 0.98}}],
        "datasets": [{"name": "digits"}],
    }
    jobs = make_plan(parse_definition(values, "test", Path()), {}, Holdings()).jobs
    expected = {job.checkpoint.reference: job.expectation for job in jobs}
    assert expected == {"bundled": Expectation(0.98, "declared"), "init:0": None}
