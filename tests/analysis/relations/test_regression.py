"""Regressions agree with scipy and scikit-learn; p-values are uniform where there is nothing."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from analysis.data.provenance import provenance_of
from analysis.figures import regression_rows
from analysis.relations.accuracy_predictors import (
    CHARACTERISTICS,
    GIVEN,
    KINDS,
    STATISTICS,
    predictors,
    statistics,
)
from analysis.relations.accuracy_regressions import regressions, regressions_finding
from analysis.statistics.fitted_line import fitted_line
from analysis.statistics.p_values import corrected
from survey.errors import SettingsError, UnknownName
from tests.analysis.made import models, signature, signatures

RNG = np.random.default_rng


def zoo(
    count: int, seed: int = 0, sites: int = 8, *, gates: bool = True, **values
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return random signatures and random models, with nothing between them."""
    rng = RNG(seed)
    names = [f"m{number:03}" for number in range(count)]
    runs = np.repeat(names, sites)
    roles = ["main", "gate" if gates else "main"] * (count * sites // 2)
    scores = signature("zoo", rng.uniform(0.1, 1, count * sites), role=roles)
    scores["run_id"] = runs
    known = {"measured_top1": rng.random(count), "gflops": rng.random(count)}
    known |= {"depth": rng.integers(5, 200, count), "parameters": rng.integers(1, 10**9, count)}
    return scores, models(names, **{**known, **values})


def at(result: pd.DataFrame, kind: str, predictor: str) -> pd.Series:
    (row,) = result[(result["kind"] == kind) & (result["predictor"] == predictor)].to_dict(
        "records"
    )
    return pd.Series(row)


def test_a_line_agrees_with_scipy_and_scikit_learn() -> None:
    for seed, n in enumerate((3, 4, 5, 9, 40)):
        x, y = RNG(seed).normal(size=(2, n)) * [[5], [0.1]] + [[100], [0.7]]
        result, theirs = fitted_line(x, y), stats.linregress(x, y)
        assert result.slope == pytest.approx(theirs.slope, rel=1e-9)
        assert result.intercept == pytest.approx(theirs.intercept, rel=1e-9)
        assert result.r2 == pytest.approx(theirs.rvalue**2, abs=1e-12)
        guessed = cross_val_predict(LinearRegression(), x[:, None], y, cv=LeaveOneOut())
        press = ((y - guessed) ** 2).sum()
        assert result.r2_left_out == pytest.approx(
            1 - press / ((y - y.mean()) ** 2).sum(), rel=1e-9
        )
        assert result.r2_left_out < result.r2 <= 1


def test_a_point_that_alone_gives_the_slope_cannot_be_left_out() -> None:
    assert math.isnan(fitted_line([1, 1, 1, 2], [0.1, 0.2, 0.3, 0.4]).r2_left_out)
    measured = [0.1, 0.2, 0.3, 0.4, 0.6]
    frames = zoo(5, depth=[7, 7, 7, 7, 8], measured_top1=measured)
    row = at(regressions(*frames), "characteristic", "depth")
    assert row["r2"] > 0
    assert "without one of the architectures" in row["reason"]


def test_statistics_of_a_signature() -> None:
    scores = signatures(signature("a", [0.2, 0.4, 0.9]), signature("zero", [0.0, 0.0]))
    table = statistics(scores)
    assert tuple(table) == STATISTICS
    expected = [0.5, 0.4, 0.2, 0.9, np.std([0.2, 0.4, 0.9]), 1.8, 2.25]
    assert table.loc["a"].tolist() == pytest.approx(expected)
    assert table.loc["zero", ["max/mean", "max/median"]].isna().all()


def test_every_predictor_is_fitted_on_its_own_sites() -> None:
    scores, known = zoo(12, seed=3)
    table = regressions(scores, known, permutations=99)
    top1 = known.set_index("run_id")["measured_top1"]
    roles = {"signature": ["main", "gate"], "gates": ["gate"], "main": ["main"]}
    for kind, kept in roles.items():
        by_run = scores[scores["role"].isin(kept)].groupby("run_id")["affinity"]
        x = (by_run.max() / by_run.median()).loc[top1.index]
        theirs, row = stats.linregress(x, top1), at(table, kind, "max/median")
        assert row["r2"] == pytest.approx(theirs.rvalue**2, abs=1e-10)
        assert row["slope"] == pytest.approx(theirs.slope, rel=1e-9)
    x = known["parameters"]
    row = at(table, "characteristic", "parameters")
    assert row["r2"] == pytest.approx(stats.pearsonr(x, known["measured_top1"]).statistic ** 2)
    assert set(table["n"]) == {12}
    assert set(table["accuracy"]) == {"12 measured"}
    assert provenance_of(table).runs == 12


def test_the_best_of_each_kind_is_picked_once() -> None:
    table = regressions(*zoo(9, seed=4), permutations=199)
    assert len(table) == 3 * len(STATISTICS) + len(CHARACTERISTICS)
    for _, rows in table.groupby("kind"):
        (picked,) = rows[rows["picked"]].to_dict("records")
        assert picked["r2"] == rows["r2"].max()
        # Accounting for the picking never makes a p-value smaller.
        assert picked["p_picked"] >= picked["p"]
        assert rows.loc[~rows["picked"], "p_picked"].isna().all()
    assert set(table["kind"]) == set(KINDS)


def test_a_tag_is_a_predictor_of_its_own_kind() -> None:
    scores, known = zoo(12, seed=3)
    rates = RNG(1).random(12)
    tags = [{"lr": float(each), "note": "x"} for each in rates]
    tagged = known.assign(tags=tags)
    table = regressions(scores, tagged, permutations=99, given=("tags.lr", "year"))
    theirs = stats.linregress(rates, known["measured_top1"])
    row = at(table, GIVEN, "tags.lr")
    assert row["r2"] == pytest.approx(theirs.rvalue**2, abs=1e-10)
    assert row["slope"] == pytest.approx(theirs.slope, rel=1e-9)
    assert (row["n"], row["picked"]) == (12, True)
    assert "does not vary" in at(table, GIVEN, "year")["reason"]
    # What is picked of the other kinds does not depend on it.
    without = regressions(scores, known, permutations=99)
    same = [name for name in without if name not in ("p_corrected", "q")]
    others = table[table["kind"] != GIVEN].reset_index(drop=True)
    pd.testing.assert_frame_equal(others[same], without[same])
    drawn = regression_rows(table, scores, tagged).query("kind == @GIVEN").set_index("model")
    assert drawn["value"].tolist() == pytest.approx(rates[drawn.index.str[1:].astype(int)])
    with pytest.raises(SettingsError, match=r"tags\.note has no number"):
        regressions(scores, tagged, given=("tags.note",))
    dated = tagged.assign(finished_at=pd.Timestamp("2026-05-04"))
    with pytest.raises(SettingsError, match="finished_at has no number"):
        regressions(scores, dated, given=("finished_at",))
    with pytest.raises(UnknownName):
        regressions(scores, tagged, given=("tags.momentum",))


def test_few_models_are_tried_in_every_order() -> None:
    scores, known = zoo(5, seed=5, gates=False)
    table = regressions(scores, known)
    y = known["measured_top1"].to_numpy()
    predictors = {name: known[name].to_numpy(float) for name in CHARACTERISTICS}
    by_order = {
        name: [np.corrcoef(x, moved)[0, 1] ** 2 for moved in itertools.permutations(y)]
        for name, x in predictors.items()
    }
    for name, each in by_order.items():
        observed = np.corrcoef(predictors[name], y)[0, 1] ** 2
        expected = np.mean(np.array(each) >= observed - 1e-12)
        assert at(table, "characteristic", name)["p"] == pytest.approx(expected, abs=1e-12)
    largest = np.max(list(by_order.values()), axis=0)
    (picked,) = table[table["picked"] & (table["kind"] == "characteristic")].to_dict("records")
    assert picked["p_picked"] == pytest.approx(np.mean(largest >= picked["r2"] - 1e-12))


def test_a_true_line_is_found_and_noise_beside_it_is_not() -> None:
    scores, known = zoo(30, seed=6)
    known["measured_top1"] = 0.3 + 0.002 * known["depth"] + RNG(1).normal(0, 0.01, 30)
    table = regressions(scores, known, permutations=999)
    row = at(table, "characteristic", "depth")
    assert row["picked"]
    assert row["slope"] == pytest.approx(0.002, rel=0.05)
    assert row["r2_left_out"] > 0.95
    assert row["p_picked"] == pytest.approx(1 / 1000)
    assert table.loc[table["picked"] & (table["kind"] != "characteristic"), "p_picked"].min() > 0.05


@pytest.mark.slow(seconds=2)
def test_p_is_uniform_and_picking_is_accounted_for_where_there_is_nothing() -> None:
    """300 groups of six models in one call, accuracies drawn apart from everything else."""
    groups, size = 300, 6
    scores, known = zoo(groups * size, seed=7, sites=6)
    known["family_group"] = np.repeat([f"g{number:03}" for number in range(groups)], size)
    table = regressions(scores, known)
    for kind, predictor in (("signature", "std"), ("gates", "mean"), ("characteristic", "depth")):
        rows = table[(table["kind"] == kind) & (table["predictor"] == predictor)]
        assert stats.kstest(rows["p"], "uniform").pvalue > 0.001, (kind, predictor)
    for kind in KINDS:
        picked = table[table["picked"] & (table["kind"] == kind)]
        assert len(picked) == groups
        assert stats.kstest(picked["p_picked"], "uniform").pvalue > 0.001, kind
        for level in (0.05, 0.2):
            error = (level * (1 - level) / groups) ** 0.5
            assert abs((picked["p_picked"] <= level).mean() - level) < 3.5 * error, (kind, level)
    # The p-value of the picked one alone would be far from honest.
    naive = table.loc[table["picked"] & (table["kind"] == "signature"), "p"]
    assert (naive <= 0.05).mean() > 0.1


def test_p_is_uniform_with_drawn_orders_and_gaps() -> None:
    """200 groups of ten, too many orders to try; a third of the depths unknown."""
    groups, size = 200, 10
    scores, known = zoo(groups * size, seed=8, sites=4, gates=False)
    known["family_group"] = np.repeat([f"g{number:03}" for number in range(groups)], size)
    known["depth"] = known["depth"].astype(float).where(RNG(9).random(len(known)) > 1 / 3)
    table = regressions(scores, known, permutations=199, seed=1)
    rows = table[table["predictor"] == "depth"]
    assert 4 < rows["n"].mean() < 9
    assert stats.kstest(rows["p"].dropna(), "uniform").pvalue > 0.001
    picked = table[table["picked"] & (table["kind"] == "characteristic")]
    assert stats.kstest(picked["p_picked"], "uniform").pvalue > 0.001


def alike(values: np.ndarray, groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return values, one a checkpoint, of intraclass correlation 0.8 within its architecture."""
    shared = rng.normal(size=(groups.max() + 1, *values.shape[1:]))[groups]
    return np.asarray(0.8**0.5 * shared + 0.2**0.5 * values)


def test_checkpoints_of_an_architecture_are_no_more_evidence_than_one() -> None:
    """200 groups of six architectures with one to six checkpoints each, and nothing to find."""
    groups, sizes, sites = 200, np.arange(1, 7), 4
    rng = RNG(12)
    architecture = np.repeat(np.arange(groups * len(sizes)), np.tile(sizes, groups))
    count = len(architecture)
    scores, known = zoo(count, sites=sites, gates=False, depth=20, parameters=10**6, gflops=1.0)
    known["family_group"] = [f"g{each // len(sizes):03}" for each in architecture]
    known["architecture"] = [f"a{each}" for each in architecture]
    known["checkpoint"] = known["run_id"]
    known["measured_top1"] = alike(rng.normal(size=count), architecture, rng)
    scores["affinity"] = 10 + alike(rng.normal(size=(count, sites)), architecture, rng).ravel()
    table = regressions(scores, known, permutations=199)
    picked = table[table["picked"] & (table["kind"] == "signature")]
    assert len(picked) == groups
    assert set(picked["n"]) == {len(sizes)}
    assert set(picked["checkpoints"]) == {sizes.sum()}
    assert (picked["p_picked"] <= 0.05).mean() <= 0.08


def test_a_point_is_the_mean_over_the_checkpoints_of_an_architecture() -> None:
    scores, known = zoo(9, gates=False, seed=13)
    known["architecture"], known["checkpoint"] = list("aaabbcdee"), known["run_id"]
    known.loc[1, "measured_top1"] = None
    # A network of the same name from another package is another point.
    known.loc[8, "source"] = "timm"
    row = at(regressions(scores, known, permutations=9), "signature", "max")
    counted = known[known["measured_top1"].notna()].assign(
        x=known["run_id"].map(scores.groupby("run_id")["affinity"].max())
    )
    means = counted.groupby(["architecture", "source"])[["x", "measured_top1"]].mean()
    theirs = stats.linregress(means["x"], means["measured_top1"])
    assert (row["n"], row["checkpoints"], row["accuracy"]) == (6, 8, "8 measured")
    assert (row["slope"], row["r2"]) == pytest.approx((theirs.slope, theirs.rvalue**2))


def test_a_checkpoint_measured_again_weighs_no_more() -> None:
    scores, known = zoo(6, gates=False, seed=17)
    known["architecture"], known["checkpoint"] = list("aabcde"), list("xyxxxx")
    once = predictors(scores, known, "measured")
    again = scores[scores["run_id"] == "m001"].assign(run_id="again")
    runs = known[known["run_id"] == "m001"].assign(run_id="again", measured_top1=None)
    # A repeat without an accuracy has no part; one with an accuracy is the same checkpoint.
    for top1 in (None, known["measured_top1"][1]):
        both = pd.concat([scores, again]), pd.concat([known, runs.assign(measured_top1=top1)])
        pd.testing.assert_frame_equal(predictors(*both, "measured"), once)


@pytest.mark.parametrize("unknown", [None, ""])
def test_equal_names_of_two_sources_are_no_family(unknown: str | None) -> None:
    scores, known = zoo(6, seed=18)
    known["family"] = unknown
    known["architecture"] = list("abcabc")
    known["source"] = ["small"] * 3 + ["timm"] * 3
    assert set(predictors(scores, known, "measured")["family"]) == {
        f"{source}:{name}" for source in ("small", "timm") for name in "abc"
    }
    assert set(regressions(scores, known, permutations=9)["families"]) == {6}


def test_picks_are_corrected_for_their_number() -> None:
    scores, known = zoo(24, seed=14)
    known["family_group"] = np.repeat(["a", "b", "c", "d"], 6)
    table = regressions(scores, known)
    holm, rate = corrected(table.loc[table["picked"], "p_picked"])
    assert len(holm) == 4 * len(KINDS)
    assert table.loc[table["picked"], "p_corrected"].tolist() == holm.tolist()
    assert table.loc[table["picked"], "q"].tolist() == rate.tolist()
    assert table.loc[~table["picked"], ["p_corrected", "q"]].isna().all(axis=None)


def test_main_sites_that_are_all_sites_are_no_second_test() -> None:
    scores, known = zoo(12, seed=15)
    known["family_group"] = ["plain"] * 6 + ["gated"] * 6
    scores.loc[scores["run_id"].isin(known["run_id"][:6]), "role"] = "main"
    table = regressions(scores, known)
    kinds = table.groupby("group")["kind"].unique().map(set)
    assert kinds.to_dict() == {"gated": set(KINDS), "plain": set(KINDS) - {"main"}}
    # A single gate makes another test of the main sites.
    scores.loc[0, "role"] = "gate"
    assert set(regressions(scores, known).query("group == 'plain'")["kind"]) == set(KINDS)


def test_what_cannot_be_fitted_says_why() -> None:
    scores, known = zoo(6, gates=False, depth=[None] * 6, gflops=[2.0] * 6)
    table = regressions(scores, known)
    for kind, predictor, words in (
        ("gates", "mean", "no architecture has a gate"),
        ("characteristic", "depth", "no architecture has a known depth"),
        ("characteristic", "gflops", "gflops does not vary"),
    ):
        row = at(table, kind, predictor)
        assert words in row["reason"]
        assert row[["r2", "slope", "p", "p_picked"]].isna().all()
        assert not row["picked"]
    assert table[table["kind"] == "gates"]["picked"].sum() == 0
    for changed, words in (
        ({"measured_top1": [0.5] * 6}, "top-1 does not vary"),
        ({"measured_top1": [0.5, 0.6, 0.7, None, None, None]}, "3 architectures, at least 4"),
        ({"measured_top1": [None] * 6}, "no architecture has a known top-1"),
    ):
        table = regressions(scores, known.assign(**changed))
        assert table["reason"].str.contains(words).all()
        assert table["r2"].isna().all()


def test_measured_or_reported_is_said() -> None:
    measured, reported = [0.1, 0.2, None, 0.4, 0.6], [0.9, None, 0.7, 0.6, 0.1]
    frames = zoo(5, measured_top1=measured, reported_top1=reported, depth=[1, 2, 3, 4, 5])
    table = regressions(*frames)
    assert set(table["accuracy"]) == {"4 measured, 1 reported"}
    expected = stats.linregress([1, 2, 3, 4, 5], [0.1, 0.2, 0.7, 0.4, 0.6]).slope
    assert at(table, "characteristic", "depth")["slope"] == pytest.approx(expected)
    table = regressions(*frames, accuracy="reported")
    assert set(table["accuracy"]) == {"1 measured, 4 reported"}
    expected = stats.linregress([1, 2, 3, 4, 5], [0.9, 0.2, 0.7, 0.6, 0.1]).slope
    assert at(table, "characteristic", "depth")["slope"] == pytest.approx(expected)


def test_groups_and_datasets_are_apart_and_others_have_no_part() -> None:
    scores, known = zoo(14)
    known["family_group"] = ["a"] * 5 + ["b"] * 5 + [None] * 4
    known.loc[[3, 4], "dataset"] = "cifar"
    table = regressions(scores, known)
    counts = table[table["predictor"] == "depth"].set_index(["group", "dataset"])["n"]
    assert counts.to_dict() == {("a", "cifar"): 2, ("a", "digits"): 3, ("b", "digits"): 5}
    unmeasured = models(["none"])
    assert len(regressions(scores, pd.concat([known, unmeasured]))) == len(table)
    assert regressions(scores.head(0), known).empty


def test_groups_on_several_datasets_are_no_more_groups() -> None:
    scores, known = zoo(12)
    known["family_group"] = list("ab") * 6
    one = regressions_finding(regressions(scores, known, permutations=9))
    assert "of 2 groups, and" in one
    known["dataset"] = ["digits"] * 4 + ["cifar"] * 8
    few = regressions_finding(regressions(scores, known, permutations=9))
    # On the digits two architectures a group are too few.
    assert "of 2 groups, and" in few
    again = scores.assign(run_id=scores["run_id"] + "x")
    runs = known.assign(dataset="digits"), known.assign(dataset="x", run_id=known["run_id"] + "x")
    table = regressions(pd.concat([scores, again]), pd.concat(runs), permutations=9)
    assert "of 4 comparisons, of 2 groups on 2 datasets, and" in regressions_finding(table)


def test_the_seed_decides() -> None:
    frames = zoo(12)
    first, again, other = (regressions(*frames, permutations=99, seed=seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first, again)
    assert not first["p"].equals(other["p"])


@pytest.mark.parametrize("sizes", [(4, 4, 4), (5, 5), (3, 3, 3, 3, 3)])
def test_alike_families_are_no_independent_architectures(sizes: tuple[int, ...]) -> None:
    """Families differ in accuracy and signature by chance, and their architectures hardly."""
    groups, n, sites, rng = 200, sum(sizes), 4, RNG(15)
    scores, known = zoo(groups * n, sites=sites, gates=False, depth=9, parameters=9, gflops=1.0)
    family = np.repeat(np.arange(groups * len(sizes)), np.tile(sizes, groups))
    known["family"] = [f"f{each}" for each in family]
    known["family_group"] = np.repeat([f"g{number:03}" for number in range(groups)], n)
    known["measured_top1"] = alike(rng.normal(size=groups * n), family, rng)
    scores["affinity"] = 10 + alike(rng.normal(size=(groups * n, sites)), family, rng).ravel()
    table = regressions(scores, known, permutations=199)
    picked = table[table["picked"] & (table["kind"] == "signature")]
    assert set(picked["families"]) == {len(sizes)}
    assert (picked["p_picked"] <= 0.05).mean() <= 0.08


def test_a_predictor_and_an_accuracy_are_of_the_same_checkpoints() -> None:
    scores, known = zoo(7, gates=False, seed=16)
    known["architecture"], known["checkpoint"] = list("aabcdef"), known["run_id"]
    known["tags"] = [{"lr": float(each)} if each != 1 else {} for each in range(7)]
    row = at(regressions(scores, known, permutations=9, given=["tags.lr"]), "given", "tags.lr")
    theirs = stats.linregress(range(2, 7), known["measured_top1"][2:])
    assert (row["n"], row["r2"]) == (5, pytest.approx(theirs.rvalue**2))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(SettingsError, match="permutations is 0"):
        regressions(*zoo(3), permutations=0)
    with pytest.raises(SettingsError, match="accuracy is 'best'"):
        regressions(*zoo(3), accuracy="best")  # type: ignore[arg-type]


def test_poolings_and_random_weights_stand_apart() -> None:
    """A second pooling is no second model, and no training explains chance accuracy."""
    scores, known = zoo(6, seed=8)
    again = scores.assign(run_id=scores["run_id"] + "s", pooling="sum")
    born = scores.assign(run_id=scores["run_id"] + "i", checkpoint="init:0")
    runs = [
        known,
        known.assign(run_id=known["run_id"] + "s", pooling="sum"),
        known.assign(run_id=known["run_id"] + "i", checkpoint="init:0", measured_top1=0.1),
    ]
    table = regressions(pd.concat([scores, again, born]), pd.concat(runs), permutations=9)
    alone = regressions(scores, known, permutations=9)
    assert set(table["n"]) == {6}
    # What depends on how many picks the table has.
    apart = ["dataset", "p_corrected", "q"]
    for name in ("digits", "digits, pooled sum"):
        group = table[table["dataset"] == name].reset_index(drop=True)
        pd.testing.assert_frame_equal(group.drop(columns=apart), alone.drop(columns=apart))
