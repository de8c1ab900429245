"""Trends of the affinity over a tag, against closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.figures import trend_chart, trend_rows
from analysis.relations.trend import default_column, trend_points, trends, trends_finding
from survey.errors import NothingToDraw, SettingsError, UnknownName
from tests.analysis.made import models, signature, signatures

EPOCHS = (0, 1, 2, 10)


def study(**changes: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return four epochs of a network: one site falls by 0.02 an epoch, the other is constant."""
    names = [f"e{epoch}" for epoch in EPOCHS]
    sites = [[0.9 - 0.02 * epoch, 0.5] for epoch in EPOCHS]
    frames = [
        signature(name, each, architecture="net", relative_depth=[0.0, 1.0])
        for name, each in zip(names, sites, strict=True)
    ]
    tags = [{"epoch": epoch, "lr": 0.1, "note": "x", **changes} for epoch in EPOCHS]
    runs = models(names, tags=tags).assign(architecture="net")
    return signatures(*frames), runs


def test_the_slope_is_that_of_the_line_through_the_points() -> None:
    table = trends(*study())
    assert list(table["site_name"]) == ["mean of sites", "s", "s"]
    assert np.allclose(table["slope"], [-0.01, -0.02, 0.0])
    assert np.allclose(table["change"], [-0.1, -0.2, 0.0])
    assert np.allclose(table["at_lowest"], [0.7, 0.9, 0.5])
    assert np.allclose(table["pearson"].iloc[:2], -1)
    assert np.isnan(table["pearson"].iloc[2])
    assert list(table["n"]) == [4, 4, 4]
    finding = trends_finding(table)
    assert "falls from 0.70 at epoch 0 to 0.60 at epoch 10" in finding


def test_a_site_without_a_score_in_one_run_is_no_part_of_the_mean() -> None:
    measured, runs = study()
    measured.loc[(measured["run_id"] == "e2") & (measured["site"] == 1), "affinity"] = np.nan
    table = trends(measured, runs)
    assert np.isclose(table["slope"].iloc[0], -0.02)
    assert list(table["n"]) == [4, 4, 3]


def test_a_run_without_a_score_takes_no_site_from_the_others() -> None:
    measured, runs = study()
    measured.loc[measured["run_id"] == "e2", "affinity"] = np.nan
    table = trends(measured, runs)
    assert list(table["n"]) == [3, 3, 3]
    assert np.allclose(table["slope"], [-0.01, -0.02, 0.0])
    nothing = trends(measured.assign(affinity=np.nan), runs)
    assert trends_finding(nothing).lower() == nothing["reason"].iloc[0]


def test_runs_whose_scores_do_not_count_choose_neither_the_tag_nor_the_names() -> None:
    measured, runs = study()
    runs["tags"] = [{"lr": tags["epoch"]} for tags in runs["tags"]]
    random = models(["i0", "i1"], tags=[{"epoch": 0}, {"epoch": 1}], dataset="other", source="x")
    table = trends(measured, pd.concat([runs, random.assign(architecture="net")]))
    assert set(table["against"]) == {"tags.lr"}
    assert set(table["network"]) == {"net"}


def test_by_default_the_epoch_is_the_axis_and_constant_tags_and_text_are_none() -> None:
    _, runs = study()
    assert default_column(runs) == "tags.epoch"
    assert default_column(runs.assign(tags=[{"lr": n, "b": n} for n in range(4)])) == "tags.b"
    assert default_column(runs.assign(tags=[{"lr": 1, "ok": n > 1} for n in range(4)])) is None


def test_without_a_tag_there_is_an_answer_and_no_line() -> None:
    measured, runs = study()
    table = trends(measured, runs.assign(tags=[{}] * 4))
    assert table.empty
    assert "survey tag" in trends_finding(table)
    points = trend_points(measured, runs.assign(tags=[{}] * 4))
    with pytest.raises(NothingToDraw):
        trend_chart(table, points)
    with pytest.raises(UnknownName, match="epohc"):
        trends(measured, runs, "tags.epohc")


def test_a_tag_parts_the_runs_of_a_network_into_lines() -> None:
    measured, runs = study()
    runs["tags"] = [{**tags, "seed": place % 2} for place, tags in enumerate(runs["tags"])]
    points = trend_points(measured, runs, "tags.epoch", ["tags.seed"])
    assert set(points["line"]) == {"seed 0", "seed 1"}
    table = trends(measured, runs, "tags.epoch", ["tags.seed"])
    assert set(table["network"]) == {"net, seed 0", "net, seed 1"}
    # Of several lines the means alone are drawn, else no site could be told from another.
    assert trend_rows(table, points)["site"].isna().all()


def test_values_that_differ_late_part_runs_into_lines() -> None:
    measured, runs = study()
    budgets = (1234567.5, 1234568.5)
    runs["tags"] = [{**tags, "n": budgets[place % 2]} for place, tags in enumerate(runs["tags"])]
    points = trend_points(measured, runs, "tags.epoch", ["tags.n"])
    assert set(points["line"]) == {"n 1234567.5", "n 1234568.5"}


def test_a_column_of_models_is_an_axis_too() -> None:
    measured, runs = study()
    runs["year"] = [2012, 2014, 2016, 2018]
    table = trends(measured, runs, "year")
    assert list(table["lowest"]) == [2012.0] * 3


@pytest.mark.parametrize("name", ["finished_at", "skipped_names", "tags.note"])
def test_what_holds_no_number_is_no_axis(name: str) -> None:
    measured, runs = study()
    runs["finished_at"] = pd.Timestamp("2026-05-04 12:00", tz="UTC")
    runs["skipped_names"] = [["head"], [], None, ["fc"]]
    with pytest.raises(SettingsError, match=f"{name} has no number, so nothing can be drawn"):
        trends(measured, runs, name)


def test_the_drawing_has_every_site_and_the_mean() -> None:
    measured, runs = study()
    table, points = trends(measured, runs), trend_points(measured, runs)
    rows = trend_rows(table, points)
    assert len(rows) == 4 * 3
    assert np.allclose(rows[rows["site"].isna()]["affinity"], [0.7, 0.69, 0.68, 0.6])
    assert "epoch" in str(trend_chart(table, points).to_dict())
