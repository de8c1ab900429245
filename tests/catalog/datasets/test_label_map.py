"""Labels: wnids go to ImageNet's indices, equal numbers fit, everything else does not."""

from __future__ import annotations

import csv

import pytest

from catalog.datasets.label_map import imagenet_wnids, label_map
from tests.shared_data import shared


def test_wnids_map_onto_their_imagenet_indices() -> None:
    assert label_map(("n01440764", "n01443537", "n15075141"), 1000) == (0, 1, 999)


def test_numbers_are_imagenets_outputs_and_else_sorted_as_they_are_trained_on() -> None:
    numbers = sorted(map(str, range(1000)))
    assert label_map(numbers, 1000) == tuple(map(int, numbers))
    for classes in (999, 12):
        numbers = sorted(map(str, range(classes)))
        assert label_map(numbers, classes) == tuple(range(classes))
        assert label_map(numbers, 1000) is None


@pytest.mark.real_data
def test_wnids_map_as_published() -> None:
    with shared("data/imagenet-sample-labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    wnids = sorted(row["wnid"] for row in rows)
    indices = {row["wnid"]: int(row["class_index"]) for row in rows}
    assert label_map(wnids, 1000) == tuple(indices[wnid] for wnid in wnids)


@pytest.mark.parametrize(
    ("classes", "outputs", "expected"),
    [
        (("cat", "dog"), 2, (0, 1)),
        # A published dataset's own order is the order its networks were trained in.
        (("T-shirt/top", "Trouser", "Pullover"), 3, (0, 1, 2)),
        (("n01440764", "n01443537"), 2, (0, 1)),
        (("cat", "dog"), 10, None),
        (("n01440764", "n99999999"), 1000, None),
        (("n01440764", "cat"), 1000, None),
        (("n01440764", "n01443537"), 10, None),
        ((), 1000, None),
        ((), 0, None),
    ],
)
def test_classes_fit_or_they_do_not(
    classes: tuple[str, ...], outputs: int, expected: tuple[int, ...] | None
) -> None:
    assert label_map(classes, outputs) == expected


def test_wnids_are_in_the_order_of_the_outputs() -> None:
    wnids = imagenet_wnids()
    assert len(wnids) == 1000
    assert label_map(wnids, 1000) == tuple(range(1000))
    assert list(wnids) == sorted(wnids)
