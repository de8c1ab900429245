"""The differences between accuracies are held against the error of a share of images."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2_contingency, kstest

from analysis.relations.accuracy_spread import COLUMNS, accuracy_spread, chance_sentences
from tests.analysis.made import models


def zoo(hits: list[int], images: int = 1797, **values: object) -> pd.DataFrame:
    names = [f"m{number}" for number in range(len(hits))]
    known = {"measured_top1": [hit / images for hit in hits], "images": images}
    return models(names, **{**known, **values})


def test_a_few_images_are_no_more_than_chance() -> None:
    (row,) = accuracy_spread(zoo([1794, 1794, 1793, 1792, 1791])).to_dict("records")
    assert (row["n"], row["images"], row["within_chance"]) == (5, 1797, True)
    assert row["span"] * 1797 == pytest.approx(3)
    p = np.array([1794, 1794, 1793, 1792, 1791]) / 1797
    assert row["sampling_error"] == pytest.approx(np.sqrt(p.mean() * (1 - p.mean()) / 1797))
    assert row["std"] == pytest.approx(np.std(p, ddof=1))
    (sentence,) = chance_sentences(accuracy_spread(zoo([1794, 1794, 1793, 1792, 1791])))
    assert "(standard deviation 0.07 %, of chance 0.11 %; p 0.80)" in sentence


@pytest.mark.parametrize("images", [[1000] * 4, [1000, 50, 300, 1000]])
def test_q_is_that_of_a_table_of_right_and_wrong(images: list[int]) -> None:
    """Networks that saw more images weigh more, as in the table's chi-squared test."""
    right = [round(share * each) for share, each in zip((0.9, 0.8, 0.85, 0.9), images, strict=True)]
    shares = [hit / each for hit, each in zip(right, images, strict=True)]
    measured = zoo(right).assign(measured_top1=shares, images=images)
    (row,) = accuracy_spread(measured).to_dict("records")
    table = np.array([right, np.subtract(images, right)])
    q, p, degrees, _ = chi2_contingency(table, correction=False)
    assert degrees == 3
    assert (row["q"], row["p"]) == pytest.approx((q, p))


def test_networks_that_differ_in_truth_are_not_said_to_be_alike() -> None:
    spread = accuracy_spread(zoo([1700, 1500, 1300, 1100]))
    assert list(spread["within_chance"]) == [False]
    assert chance_sentences(spread) == []


def test_networks_that_all_are_right_do_not_differ() -> None:
    (row,) = accuracy_spread(zoo([1797, 1797, 1797])).to_dict("records")
    assert (row["q"], row["p"], row["within_chance"]) == (0, 1, True)


@pytest.mark.slow(seconds=2)
@pytest.mark.parametrize(("share", "images"), [(0.75, 5000), (0.9, 500), (0.998, 1797)])
def test_equal_networks_are_said_to_be_alike_in_nineteen_of_twenty_cases(
    share: float, images: int
) -> None:
    drawn = np.random.default_rng(0).binomial(images, share, size=(2000, 5))
    groups = [f"g{number}" for number in range(len(drawn)) for _ in range(5)]
    spreads = accuracy_spread(zoo(drawn.ravel().tolist(), images=images, family_group=groups))
    # A standard error of 2000 draws is half of a hundredth.
    assert spreads["within_chance"].mean() == pytest.approx(0.95, abs=0.015)
    assert kstest(spreads["p"], "uniform").statistic < 0.06
    ratio = np.mean(spreads["std"] ** 2) / np.mean(spreads["sampling_error"] ** 2)
    assert ratio == pytest.approx(1, abs=0.1)


def test_a_network_that_ran_again_counts_once_as_it_is_now() -> None:
    again = zoo([1, 90, 91, 92], images=100, architecture=["a", "a", "b", "b"])
    again["checkpoint"] = ["bundled", "bundled", "bundled", "other"]
    once = accuracy_spread(again.iloc[1:])
    pd.testing.assert_frame_equal(accuracy_spread(again), once)
    assert list(once["n"]) == [3]


def test_groups_datasets_and_random_weights_are_kept_apart() -> None:
    frame = zoo(
        [90, 91, 50, 20, 92],
        images=100,
        family_group=["a", "a", "b", "a", "a"],
        checkpoint=["bundled", "bundled", "bundled", "init:0", "bundled"],
        dataset=["one", "one", "one", "one", "two"],
    )
    spreads = accuracy_spread(frame)
    assert list(spreads[["group", "dataset", "n"]].itertuples(index=False)) == [("a", "one", 2)]
    assert chance_sentences(spreads, least=3) == []


def test_nothing_known_gives_no_rows() -> None:
    for frame in (
        zoo([1, 2], measured_top1=[np.nan, np.nan]),
        zoo([1, 2]).assign(images=0),
        zoo([5]),
    ):
        spreads = accuracy_spread(frame)
        assert (len(spreads), list(spreads.columns)) == (0, list(COLUMNS))
