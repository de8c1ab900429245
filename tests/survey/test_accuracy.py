"""Hits are counted as the definition says, and misses where nothing can be told."""

from __future__ import annotations

import math

import pytest
import torch

from survey.accuracy import Hits, count_hits


def test_hits_equal_counting_by_sorting() -> None:
    logits = torch.randn(50, 9, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(50) % 9
    order = logits.argsort(dim=1, descending=True).tolist()
    top1 = sum(row[0] == label for row, label in zip(order, labels.tolist(), strict=True))
    top5 = sum(label in row[:5] for row, label in zip(order, labels.tolist(), strict=True))
    assert count_hits(logits, labels) == Hits(50, top1, top5)


def test_labels_outside_the_outputs_are_not_labelled() -> None:
    logits = torch.eye(3)
    assert count_hits(logits, torch.tensor([0, -1, 7])) == Hits(1, 1, 1)


def test_a_logit_that_is_not_finite_is_a_miss() -> None:
    logits = torch.tensor([[math.nan, 1.0], [0.0, math.inf], [0.0, 1.0]])
    assert count_hits(logits, torch.tensor([0, 1, 1])) == Hits(3, 1, 1)


def test_logits_of_a_mapping_are_counted() -> None:
    output = {"logits": torch.eye(2), "features": torch.zeros(2, 9)}
    assert count_hits(output, torch.tensor([0, 1])) == Hits(2, 2, 2)


@pytest.mark.parametrize(
    "output",
    [None, {"features": torch.eye(2)}, torch.zeros(2, 3, 4), (torch.eye(2), torch.eye(2)), ()],
)
def test_other_outputs_count_nothing(output: object) -> None:
    assert count_hits(output, torch.tensor([0, 1])) == Hits(0, 0, 0)


def test_no_labels_count_nothing() -> None:
    assert count_hits(torch.eye(2), None) == Hits(0, 0, 0)
    assert Hits(1, 2, 3) + Hits(4, 5, 6) == Hits(5, 7, 9)
