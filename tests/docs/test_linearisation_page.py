"""The page of linearisation: its tables follow from its numbers, these from their definitions."""

from __future__ import annotations

import pandas as pd
import pytest
import torch
from scipy import stats

from bench.linearising.__main__ import MARK
from bench.linearising.tables import accuracy_at, gap_table, interval, page
from bench.linearising.tasks import COPIES, TASKS, pairs
from catalog.models.base import InputTransform
from catalog.zoo.train import labelled_images
from tests.style.repository import ROOT


def points(beginning: str, seed: int, accuracies: tuple[float, ...]) -> pd.DataFrame:
    """Return networks of one seed, at path lengths 0, 1 and 2."""
    lengths = range(len(accuracies))
    return pd.DataFrame(
        {"path_length_normalised": lengths, "top1": accuracies}
        | {"beginning": beginning, "seed": seed}
    )


def test_the_page_is_what_its_numbers_give() -> None:
    rows = pd.read_csv(ROOT / "docs/figures/linearised.csv")
    written = (ROOT / "docs/linearisation.md").read_text(encoding="utf-8")
    assert written.partition(MARK)[2] == f"\n{page(rows)}"


def test_an_interval_is_students() -> None:
    values = [0.012, -0.004, 0.007, 0.001, 0.02]
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert interval(values) == f"{expected.low:+.3f} to {expected.high:+.3f}"
    assert interval(values[:1]) == ""


def test_accuracy_lies_on_the_line_through_points_and_is_none_beyond() -> None:
    curve = points("late", 0, (0.2, 0.6, 0.8))
    assert accuracy_at(curve, 0.5) == pytest.approx(0.4)
    shuffled = pd.concat([curve, curve]).sample(frac=1, random_state=0)
    assert accuracy_at(shuffled, 1.5) == pytest.approx(0.7)
    assert accuracy_at(curve, 2.1) is None


def test_a_gap_is_taken_seed_by_seed() -> None:
    seeds = [(0.2, 0.6, 0.8), (0.4, 0.5, 0.9), (0.1, 0.6, 0.7)]
    rows = pd.concat(
        points(beginning, seed, tuple(each + gap for each in accuracies))
        for seed, accuracies in enumerate(seeds)
        for beginning, gap in (("late", 0.05), ("early", 0.0))
    )
    lines = [line.split("|") for line in gap_table(rows).splitlines()[2:]]
    # Three seeds that differ, whose gaps do not.
    assert {(cells[2].strip(), cells[5].strip(), cells[6].strip()) for cells in lines} == {
        ("3", "+0.050", "+0.050 to +0.050")
    }


@pytest.mark.parametrize("task", TASKS)
def test_classes_follow_from_the_digits_on_both_sides(task: str) -> None:
    images, digits = labelled_images("heldout", InputTransform(size=8, resize=8))
    made = pairs("heldout", task)
    assert made.images.shape == (COPIES * len(digits), 3, 8, 16)
    by_pixels = {image.numpy().tobytes(): int(d) for image, d in zip(images, digits, strict=True)}
    halves = made.images.split(8, dim=3)
    left, right = (
        torch.tensor([by_pixels[each.contiguous().numpy().tobytes()] for each in half])
        for half in halves
    )
    assert torch.equal(left.sort().values, digits.repeat(COPIES).sort().values)
    expected = {
        "left digit": left,
        "greater digit": torch.where(left > right, left, right),
        "sum, last digit": (left + right).remainder(10),
    }
    assert torch.equal(made.labels, expected[task])
