"""Batches of any sizes are cut alike, in order, and never more images are held than needed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from survey import InputError
from survey.micro_batches import micro_batches


@given(
    sizes=st.lists(st.integers(0, 9), max_size=12),
    per_score=st.integers(1, 12),
    size=st.integers(1, 7),
)
def test_cutting_depends_on_the_images_alone(sizes: list[int], per_score: int, size: int) -> None:
    total = sum(sizes)
    images = torch.arange(total, dtype=torch.float32)[:, None]
    labels = torch.arange(total)
    pairs = list(zip(images.split(sizes), labels.split(sizes), strict=True)) if total else []
    cut = list(micro_batches(pairs, per_score, size))
    whole = list(micro_batches([(images, labels)], per_score, size))
    assert [part.images.tolist() for part in cut] == [part.images.tolist() for part in whole]
    assert [i for part in cut for i in part.images[:, 0].tolist()] == list(range(total))
    assert all(
        part.labels is not None and part.labels.tolist() == part.images[:, 0].tolist()
        for part in cut
    )
    starts = [int(part.images[0, 0]) for part in cut]
    assert set(range(0, total, per_score)) <= set(starts)
    full = [min(size, per_score - start % per_score) for start in starts]
    assert [len(part.images) for part in cut][:-1] == full[:-1]


def test_batches_are_drawn_only_when_needed() -> None:
    drawn: list[int] = []

    def batches() -> Iterator[torch.Tensor]:
        for number in range(10):
            drawn.append(number)
            yield torch.zeros(4, 1)

    cutting = micro_batches(batches(), 8, 4)
    next(cutting)
    assert drawn == [0]


def test_slices_keep_the_memory_format() -> None:
    images = torch.randn(6, 3, 4, 4).to(memory_format=torch.channels_last)
    for part in micro_batches([images[:3], images[3:]], 4, 4):
        assert part.images.is_contiguous(memory_format=torch.channels_last)


def test_bad_batches_are_named(subtests: pytest.Subtests) -> None:
    for batches, message in [
        (torch.zeros(4, 3, 2, 2), r"one tensor of shape \(4, 3, 2, 2\)"),
        (["images"], "a batch is a str"),
        ([(torch.zeros(2, 1), torch.zeros(2), 3)], "a batch is a tuple"),
        ([([1, 2], [0, 1])], "a batch is a tuple"),
        ([(torch.zeros(2, 1), torch.zeros(3))], r"2 images.*\(3,\)"),
        ([(torch.zeros(2, 1), torch.zeros(2, 5))], r"2 images.*\(2, 5\)"),
        ([torch.zeros(1, 1), (torch.zeros(2, 1), torch.zeros(2))], "some without"),
    ]:
        with (
            subtests.test(batches=batches, message=message),
            pytest.raises(InputError, match=message),
        ):
            list(micro_batches(batches, 4, 4))  # type: ignore[arg-type]


def test_labels_may_be_missing_from_a_pair() -> None:
    (part,) = micro_batches([(torch.zeros(2, 1), None), torch.zeros(1, 1)], 4, 4)
    assert part.labels is None
    assert len(part.images) == 3


def test_labels_may_be_lists() -> None:
    (part,) = micro_batches([[torch.zeros(2, 1), [4, 5]]], 4, 4)
    assert part.labels is not None
    assert part.labels.tolist() == [4, 5]
