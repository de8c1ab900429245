"""The sample: evenly many of each family, its ends among them, and all where all have room."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.figures import signature_chart, signature_lines
from analysis.figures.marks.representative_models import sample
from tests.analysis.figures.drawn import note, title, words
from tests.analysis.figures.frames import surveyed


def medians(lines: pd.DataFrame) -> pd.DataFrame:
    """Return each run's median and family."""
    return lines.groupby("run_id").agg(family=("family", "first"), median=("affinity", "median"))


def made(**sizes: int) -> pd.DataFrame:
    """Return lines of one site: of each family so many runs, in a shuffled order of medians."""
    rng = np.random.default_rng(0)
    rows = [
        {"run_id": f"{family}{number}", "family": family, "affinity": value}
        for family, size in sizes.items()
        for number, value in enumerate(rng.permutation(size) / size)
    ]
    return pd.DataFrame(rows)


def test_each_family_gives_evenly_many_its_lowest_and_highest_among_them():
    runs = medians(made(a=125, b=40, c=2, d=1))
    chosen = runs.loc[sample(made(a=125, b=40, c=2, d=1), 23)]
    assert chosen["family"].value_counts().to_dict() == {"a": 10, "b": 10, "c": 2, "d": 1}
    for family, group in chosen.groupby("family"):
        every = runs.loc[runs["family"] == family, "median"]
        assert {group["median"].min(), group["median"].max()} == {every.min(), every.max()}
    steps = np.diff(chosen.loc[chosen["family"] == "a", "median"].sort_values()) * 125
    assert steps.max() - steps.min() < 1.5


def test_no_more_than_wanted_and_none_without_a_score():
    lines = made(a=5, b=5, c=1)
    lines.loc[lines["run_id"] == "a2", "affinity"] = np.nan
    for most in range(1, 12):
        chosen = sample(lines, most)
        assert len(set(chosen)) == len(chosen) == min(most, 10)
        assert "a2" not in chosen
    # One alone is the middle one.
    five = made(b=5)
    assert medians(five).loc[sample(five, 1), "median"].item() == 0.4


@pytest.mark.slow(seconds=5)
def test_a_figure_of_some_says_so_and_states_what_holds_for_all():
    frame = surveyed(36)
    frame.loc[frame["model"] == "vgg_1", "affinity"] = np.nan
    some = signature_chart(frame, most=18)
    assert title(some) == title(signature_chart(frame))
    drawn = words(some)
    assert "18 of 36 models shown" in drawn
    assert "ResNet (n = 4, 2 shown)" in drawn
    assert "36 runs" in drawn
    assert signature_lines(frame, 18)["run_id"].nunique() == 18
    # Nothing is left out where all that have a score have room.
    assert len(signature_lines(frame, 35)) == len(frame)
    assert "shown" not in note(signature_chart(frame, most=35))
