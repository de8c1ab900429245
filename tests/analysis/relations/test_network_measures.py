"""Measures that repeat depth are told from measures that say something of their own."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.data.provenance import provenance_of
from analysis.figures import measure_chart, measure_rows
from analysis.relations.held_constant import GIVEN
from analysis.relations.network_measures import (
    TARGETS,
    measure_correlations,
    measured_runs,
    measures_finding,
    points,
)
from survey.errors import SettingsError
from tests.analysis.made import models, signature, signatures

COUNT, FAMILIES = 30, 6


@dataclasses.dataclass
class Zoo:
    """Networks whose accuracy follows depth, and two measures: one of depth, one of accuracy."""

    signatures: pd.DataFrame
    models: pd.DataFrame
    measures: pd.DataFrame

    @property
    def frames(self) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
        return self.signatures, self.models, self.measures


def scores(values: dict[str, np.ndarray], runs: list[str]) -> pd.DataFrame:
    """Return rows as ``measure_scores`` gives them."""
    rows = [
        {"run_id": run, "architecture": run, "measure": name, "value": value, "details": {}}
        for name, each in values.items()
        for run, value in zip(runs, each, strict=True)
    ]
    known = {"source": "small", "standard_error": np.nan, "reason": None}
    return pd.DataFrame(rows).assign(**known)


@pytest.fixture(scope="module")
def zoo() -> Zoo:
    rng = np.random.default_rng(5)
    runs = [f"m{number:02}" for number in range(COUNT)]
    log_depth = rng.uniform(2, 5, COUNT)
    skill = rng.normal(size=COUNT)
    top1 = 0.5 + 0.08 * (log_depth - 3.5) + 0.05 * skill
    sites = [
        signature(
            run, rng.uniform(0.2, 0.9, 6), channels=[2 ** int(rng.integers(4, 9))] * 6,
            sparsity_after=rng.uniform(0.2, 0.6, 6),
        )
        for run in runs
    ]  # fmt: skip
    known = {"depth": np.exp(log_depth).round().astype(int), "measured_top1": top1}
    families = [f"F{number % FAMILIES}" for number in range(COUNT)]
    values = {
        "path_length": np.exp(log_depth) + rng.normal(0, 1.0, COUNT),
        "new": skill + rng.normal(0, 0.3, COUNT),
    }
    return Zoo(signatures(*sites), models(runs, **known, family=families), scores(values, runs))


def at(table: pd.DataFrame, measure: str, target: str, *, given: bool) -> dict[str, Any]:
    wanted = (table["measure"] == measure) & (table["target"] == target)
    (row,) = table[wanted & ((table["given"] != "") == given)].to_dict("records")
    return row


@pytest.fixture(scope="module")
def table(zoo: Zoo) -> pd.DataFrame:
    return measure_correlations(*zoo.frames, permutations=999)


def test_a_measure_of_depth_says_nothing_beyond_depth(table: pd.DataFrame) -> None:
    plain, beside = (at(table, "path_length", "top-1", given=each) for each in (False, True))
    assert plain["pearson"] > 0.6
    assert plain["p_corrected"] < 0.05
    assert abs(beside["pearson"]) < 0.3
    assert beside["p"] > 0.1
    assert beside["low"] < 0 < beside["high"]
    assert (plain["n"], plain["families"], beside["given"]) == (COUNT, FAMILIES, ", ".join(GIVEN))


def test_a_measure_of_what_accuracy_has_of_its_own_keeps_its_correlation(
    table: pd.DataFrame,
) -> None:
    plain, beside = (at(table, "new", "top-1", given=each) for each in (False, True))
    assert beside["pearson"] > plain["pearson"] > 0.3
    assert beside["pearson"] > 0.8
    assert beside["p_corrected"] < 0.05
    first, second, third = measures_finding(table).split("; ")
    assert first.startswith("Path length and top-1 accuracy correlate most, by 0.81")
    assert second.startswith("given depth, width, sparsity it is -0.01")
    assert third.startswith("given these, new and top-1 accuracy correlate most, by 0.9")


def test_what_few_architectures_have_is_not_held_constant(zoo: Zoo) -> None:
    few = zoo.signatures["run_id"].isin([f"m{number:02}" for number in range(9)])
    sites = zoo.signatures.assign(sparsity_after=zoo.signatures["sparsity_after"].where(few))
    table = measure_correlations(sites, zoo.models, zoo.measures, permutations=99)
    beside = at(table, "new", "top-1", given=True)
    assert (beside["given"], beside["n"]) == ("depth, width", COUNT)
    assert beside["pearson"] > 0.8
    assert "sparsity" in beside["reason"]
    # What nearly all have is held constant, over those that have it.
    most = zoo.signatures["sparsity_after"].where(zoo.signatures["run_id"] != "m00")
    sites = zoo.signatures.assign(sparsity_after=most)
    table = measure_correlations(sites, zoo.models, zoo.measures, permutations=99)
    beside = at(table, "new", "top-1", given=True)
    assert (beside["given"], beside["n"]) == (", ".join(GIVEN), COUNT - 1)
    # Half of few architectures would be too few for a coefficient.
    eight = {f"m{number:02}" for number in range(8)}
    half = sites["sparsity_after"].where(sites["run_id"].isin({f"m{n:02}" for n in range(6)}))
    frames = (
        frame[frame["run_id"].isin(eight)]
        for frame in (sites.assign(sparsity_after=half), zoo.models, zoo.measures)
    )
    beside = at(measure_correlations(*frames, permutations=99), "new", "top-1", given=True)
    assert (beside["given"], beside["n"]) == ("depth, width", 8)


def test_signatures_that_know_nothing_of_measures_stay_unrelated(table: pd.DataFrame) -> None:
    others = table[table["target"] != "top-1"]
    assert len(table) == 2 * len(TARGETS) * 2
    assert (others["p_corrected"] > 0.05).all()
    assert others["reason"].eq("").all()


def test_holm_counts_every_test_of_the_table(table: pd.DataFrame) -> None:
    least = table["p"].idxmin()
    assert table.loc[least, "p_corrected"] == pytest.approx(len(table) * table.loc[least, "p"])


def test_it_carries_the_provenance_of_its_runs(zoo: Zoo, table: pd.DataFrame) -> None:
    assert provenance_of(table).runs == COUNT
    assert provenance_of(table).selection == "made up"
    assert zoo.measures["run_id"].nunique() == COUNT


def test_a_point_is_an_architecture_with_the_mean_over_its_checkpoints() -> None:
    runs = ["a1", "a2", "b1", "random"]
    sites = signatures(
        *(
            signature(run, [0.2, level], channels=[4, 16])
            for run, level in zip(runs, (0.4, 0.6, 0.8, 0.1), strict=True)
        )
    )
    known = models(
        runs, architecture=["a", "a", "b", "a"], checkpoint=["x", "y", "x", "init:0"],
        measured_top1=[0.5, 0.7, None, 0.1], reported_top1=[None, None, 0.9, None],
        family=["F", "F", "", "F"], depth=[8, 8, 0, 8],
    )  # fmt: skip
    measured = scores({"path_length": np.array([2.0, 4.0, np.nan, 99.0])}, runs)
    known_runs = measured_runs(sites, known, measured)
    every = points(known_runs, ["mean", "width", "top-1"]).set_index("architecture")
    assert list(every["model"]) == ["a", "b1"]
    assert list(every["family"]) == ["F", "small:b"]
    assert every.loc["a", "mean"] == pytest.approx(0.35)
    assert every.loc["a", "width"] == pytest.approx(np.log(10))
    assert list(every["top-1"]) == pytest.approx([0.6, 0.9])
    (both,) = points(known_runs, ["path_length", "depth"]).to_dict("records")
    assert (both["architecture"], both["path_length"]) == ("a", 3.0)
    assert both["depth"] == pytest.approx(np.log(8))
    # Of a pair both means are over the checkpoints that have both.
    apart = measured_runs(sites, known, measured[measured["run_id"] != "a2"])
    (one,) = points(apart, ["path_length", "top-1"]).to_dict("records")
    assert (one["model"], one["path_length"], one["top-1"]) == ("a1", 2.0, 0.5)


def test_a_checkpoint_measured_again_weighs_no_more() -> None:
    runs = ["x", "y", "again", "other"]
    sites = signatures(*(signature(run, [0.2, 0.4], channels=4) for run in runs))
    known = models(runs, architecture=["a", "a", "a", "b"], checkpoint=["x", "y", "y", "x"])
    measured = scores({"path_length": np.array([2.0, 4.0, 6.0, 9.0])}, runs)
    rows = points(measured_runs(sites, known, measured), ["path_length"])
    assert rows.set_index("architecture")["path_length"].to_dict() == {"a": 3.5, "b": 9.0}
    assert list(rows["model"]) == ["a", "other"]


def test_what_cannot_be_correlated_has_a_reason(zoo: Zoo) -> None:
    few = zoo.models.head(5)
    rows = measure_correlations(zoo.signatures, few, zoo.measures, permutations=9)
    assert set(rows.loc[rows["given"] != "", "reason"]) == {
        "5 architectures, at least 7 are needed"
    }
    assert rows.loc[rows["given"] == "", "pearson"].notna().all()
    same = zoo.models.assign(measured_top1=0.5, depth=9)
    rows = measure_correlations(zoo.signatures, same, zoo.measures, permutations=9)
    assert set(rows["given"]) == {"", "width, sparsity"}
    assert set(rows.loc[rows["target"] == "top-1", "reason"]) == {
        "top-1 does not vary over the architectures"
    }
    exact = zoo.measures.assign(value=np.log(np.tile(zoo.models["depth"], 2)))
    rows = measure_correlations(zoo.signatures, zoo.models, exact, permutations=9)
    assert set(rows.loc[rows["given"] != "", "reason"]) == {"depth, width, sparsity determine it"}


def test_no_measure_gives_no_row_and_the_way_to_one(zoo: Zoo) -> None:
    rows = measure_correlations(zoo.signatures, zoo.models, zoo.measures.head(0))
    assert len(rows) == 0
    assert "asks for measures" in measures_finding(rows)
    with pytest.raises(SettingsError, match="permutations"):
        measure_correlations(*zoo.frames, permutations=0)


def test_the_chart_has_a_point_an_architecture_and_a_panel_a_measure(
    zoo: Zoo, table: pd.DataFrame
) -> None:
    rows = measure_rows(table, *zoo.frames)
    assert rows.groupby("measure").size().to_dict() == {"path_length": COUNT, "new": COUNT}
    (first,) = rows[(rows["measure"] == "new") & (rows["model"] == "m03")].to_dict("records")
    assert first["number"] == zoo.models["measured_top1"][3]
    assert first["target"] == "top-1"
    assert len(measure_chart(table, *zoo.frames).to_dict()["vconcat"][0]["concat"]) == 2
    theirs, mine = zoo.measures.copy(), zoo.measures.copy()
    theirs["source"], theirs["run_id"] = "other", theirs["run_id"] + " of another source"
    mine["details"] = [{"conventions": {"gate": "a sum"}}] * len(mine)
    rows = measure_rows(table, zoo.signatures, zoo.models, pd.concat([mine, theirs]))
    assert set(rows["conventions"]) == {"gate: a sum"}
    unlabelled = zoo.models.assign(measured_top1=None)
    rows = measure_rows(table, zoo.signatures, unlabelled, zoo.measures)
    assert set(rows["target"]) == {"mean"}
