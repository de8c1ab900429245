"""The differences between accuracies are held against the error of a share of images."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.accuracies import COLUMNS, accuracy_spread, chance_words
from tests.analysis.made import models


def zoo(hits: list[int], images: int = 1797, **values: object) -> pd.DataFrame:
    names = [f"m{number}" for number in range(len(hits))]
    known = {"measured_top1": [hit / images for hit in hits], "images": images}
    return models(names, **{**known, **values})


def test_a_few_images_are_less_than_chance() -> None:
    (row,) = accuracy_spread(zoo([1794, 1794, 1793, 1792, 1791])).to_dict("records")
    assert (row["n"], row["images"], row["within_chance"]) == (5, 1797, True)
    assert row["span"] * 1797 == pytest.approx(3)
    p = np.array([1794, 1794, 1793, 1792, 1791]) / 1797
    assert row["sampling_error"] == pytest.approx(np.sqrt(np.mean(p * (1 - p) / 1797)))
    assert row["std"] == pytest.approx(np.std(p, ddof=1))
    (said,) = chance_words(accuracy_spread(zoo([1794, 1794, 1793, 1792, 1791])))
    assert "of the 5 residual networks on digits span 3 of 1,797 images" in said
    assert "less than chance moves them" in said


def test_networks_that_differ_in_truth_are_not_said_to_be_alike() -> None:
    spread = accuracy_spread(zoo([1700, 1500, 1300, 1100]))
    assert list(spread["within_chance"]) == [False]
    assert chance_words(spread) == []


def test_chance_alone_moves_accuracies_by_their_sampling_error() -> None:
    hits = np.random.default_rng(0).binomial(500, 0.9, size=(300, 6))
    found = pd.concat([accuracy_spread(zoo(list(row), images=500)) for row in hits])
    ratio = np.mean(found["std"] ** 2) / np.mean(found["sampling_error"] ** 2)
    assert ratio == pytest.approx(1, abs=0.1)


def test_groups_datasets_and_random_weights_are_kept_apart() -> None:
    frame = zoo(
        [90, 91, 50, 20, 92],
        images=100,
        family_group=["a", "a", "b", "a", "a"],
        checkpoint=["bundled", "bundled", "bundled", "init:0", "bundled"],
        dataset=["one", "one", "one", "one", "two"],
    )
    found = accuracy_spread(frame)
    assert list(found[["group", "dataset", "n"]].itertuples(index=False)) == [("a", "one", 2)]
    assert chance_words(found, least=3) == []


def test_nothing_known_gives_no_rows() -> None:
    for frame in (
        zoo([1, 2], measured_top1=[np.nan, np.nan]),
        zoo([1, 2]).assign(images=0),
        zoo([5]),
    ):
        found = accuracy_spread(frame)
        assert (len(found), list(found.columns)) == (0, list(COLUMNS))
