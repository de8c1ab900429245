"""The timeline: the range of every signature, in the order of years."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from analysis.data.provenance import provenance_of
from analysis.relations.timeline import timeline
from tests.analysis.made import signature, signatures


def test_one_row_a_model_oldest_first() -> None:
    table = timeline(
        signatures(
            signature("new", [0.1, 0.5, 0.9], year=2022, family="B"),
            signature("old", [0.4, np.nan, 0.2, 0.3], year=2012, family="A"),
            signature("unknown", [0.3], year=None, family=None, family_group=None),
            signature("middle", [0.7, 0.8], year=2015, family="Z"),
            signature("lower", [0.2, 0.3], year=2015, family="Z"),
        )
    )
    assert list(table["model"]) == ["old", "lower", "middle", "new", "unknown"]
    assert table["year"].tolist()[:4] == [2012, 2015, 2015, 2022]
    assert table["year"].isna().tolist() == [False] * 4 + [True]
    old = table.iloc[0]
    assert (old["lowest"], old["median"], old["highest"], old["sites"]) == (0.2, 0.3, 0.4, 3)
    assert provenance_of(table).runs == 5


def test_a_model_without_any_score_is_there_and_blank() -> None:
    table = timeline(signature("dead", [np.nan, np.nan]))
    assert table["sites"].tolist() == [0]
    assert math.isnan(table["median"].iloc[0])


def test_two_runs_with_one_label_are_two() -> None:
    both = signatures(signature("a", [0.1]), signature("b", [0.9], model="a"))
    assert len(timeline(both)) == 2


def test_nothing() -> None:
    table = timeline(signature("a", [0.5]).head(0))
    assert table.empty
    assert isinstance(table["year"].dtype, pd.Int64Dtype)


def test_numbers_agree_with_numpy() -> None:
    values = np.random.default_rng(0).random((20, 31))
    table = timeline(signatures(*(signature(f"m{i:02}", row) for i, row in enumerate(values))))
    ordered = table.sort_values("model")
    for name, expected in (
        ("lowest", values.min(axis=1)),
        ("median", np.median(values, axis=1)),
        ("highest", values.max(axis=1)),
    ):
        assert (ordered[name].to_numpy() == expected).all()
