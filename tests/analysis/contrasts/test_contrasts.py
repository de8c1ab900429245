"""Contrasts: residual against plain, across checkpoints, across datasets, before and after."""

from __future__ import annotations

import math
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.signal import lfilter

from analysis.contrasts.checkpoints import robustness
from analysis.contrasts.datasets import dataset_deviations, dataset_summary
from analysis.contrasts.residual_networks import post_shortcut, residual_contrast, twins
from analysis.contrasts.training_shift import training_shift
from analysis.data import frames
from analysis.data.provenance import provenance_of
from analysis.figures.robustness import robustness_rows
from analysis.figures.training_shift import training_rows
from analysis.statistics.effect_size import cliffs_delta
from analysis.statistics.permutations import signs_p
from survey.errors import SettingsError, UnknownName
from tests.analysis.made import signature, signatures
from tests.shared_data import shared

RNG = np.random.default_rng


# How far two groups lie apart


def test_cliffs_delta_counts_pairs() -> None:
    rng = RNG(1)
    for n, m in ((1, 1), (3, 9), (20, 15)):
        a, b = rng.integers(0, 6, n) / 5, rng.integers(0, 5, m) / 5
        counted = np.mean([int(x > y) - int(x < y) for x in a for y in b])
        assert cliffs_delta(a, b) == pytest.approx(counted, abs=1e-12)
    theirs = stats.mannwhitneyu(a, b)
    assert cliffs_delta(a, b) == pytest.approx(2 * float(theirs.statistic) / (20 * 15) - 1)


def test_cliffs_delta_turns_round_and_keeps_to_the_order() -> None:
    a, b = RNG(2).random(12), RNG(3).random(17) ** 2
    assert cliffs_delta(b, a) == pytest.approx(-cliffs_delta(a, b))
    assert cliffs_delta(np.exp(5 * a), np.exp(5 * b)) == cliffs_delta(a, b)
    assert cliffs_delta(np.arange(4) + 4, np.arange(4)) == 1


def test_signs_agree_with_scipy() -> None:
    rng = RNG(4)
    for n in (1, 2, 7, 12):
        values = rng.normal(0.5, 1, n)
        theirs = stats.permutation_test(
            (values,), np.mean, permutation_type="samples", n_resamples=np.inf
        ) if n > 1 else None  # fmt: skip
        assert signs_p(values) == pytest.approx(theirs.pvalue if theirs else 1.0)
    assert signs_p(np.ones(5)) == 2 / 2**5
    assert signs_p(np.ones(40)) == pytest.approx(1 / (2**16 + 1))


def test_signs_of_many_are_drawn_in_little_memory() -> None:
    differences = RNG(6).normal(0.1, 1, 300)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (2**16, 300))
    drawn = np.abs(signs @ differences) >= abs(differences.sum()) - 1e-12
    assert signs_p(differences) == (drawn.sum() + 1) / (2**16 + 1)
    tracemalloc.start()
    signs_p(differences)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20e6


# Residual against plain


def basic_blocks(count: int) -> list[int]:
    return [1, *([1, 2] * count)]


def test_the_last_of_a_block_is_after_the_addition() -> None:
    run = signature("r", [0.5] * 7, family="ResNet", repeat=basic_blocks(3))
    assert post_shortcut(run).tolist() == [False, False, True, False, True, False, True]
    bottlenecks = signature("r", [0.5] * 7, family="ResNet", repeat=[1, 1, 2, 3, 1, 2, 3])
    assert post_shortcut(bottlenecks).tolist() == [False] * 3 + [True] + [False] * 2 + [True]


def test_gates_within_a_block_are_not_its_end() -> None:
    run = signature(
        "se", [0.5] * 6, family="ResNet", repeat=[1, 2, 3, 4, 5, 1],
        role=["main", "main", "gate", "gate", "main", "main"],
    )  # fmt: skip
    assert post_shortcut(run).tolist() == [False] * 4 + [True, False]
    roles = ["main", "main", "gate", "main"]
    ends_in_a_gate = signature("e", [0.5] * 4, family="ResNet", repeat=[1, 2, 3, 1], role=roles)
    assert post_shortcut(ends_in_a_gate).tolist() == [False, True, False, False]


def test_who_activates_otherwise_has_no_such_site() -> None:
    plan = {"repeat": basic_blocks(2)}
    for values in (
        {"family": "Digits plain"},
        {"family": "DenseNet"},
        {"family": None},
        {"family": "ResNet", "architecture": "resnetv2_50"},
        {"family": "RegNet", "architecture": "regnetz_b16"},
    ):
        run = signature("x", [0.5] * 5, **plan, **values)
        assert not post_shortcut(run).any()
        assert residual_contrast(run).empty


def test_rows_in_any_order_are_the_same_sites() -> None:
    run = signatures(
        signature("a", RNG(1).random(9), family="CIFAR ResNet", repeat=basic_blocks(4)),
        signature("b", RNG(2).random(5), family="ResNet", repeat=basic_blocks(2)),
    )
    shuffled = run.sample(frac=1, random_state=3)
    assert post_shortcut(shuffled).sort_index().tolist() == post_shortcut(run).tolist()


def test_frames_put_together_may_repeat_their_index() -> None:
    runs = [
        signature(name, RNG(seed).random(6), family="ResNet", repeat=[1, 2] * 3)
        for seed, name in enumerate("ba")
    ]
    runs[0].loc[0, "role"] = "gate"
    numbered, together = signatures(*runs), pd.concat(runs)
    assert post_shortcut(together).index.equals(together.index)
    assert post_shortcut(together).tolist() == post_shortcut(numbered).tolist()
    pd.testing.assert_frame_equal(residual_contrast(together), residual_contrast(numbered))


def test_sites_after_additions_against_the_others() -> None:
    rng = RNG(5)
    affinity = np.where(np.array(basic_blocks(9)) == 2, rng.uniform(0.8, 1, 19), rng.random(19))
    affinity[3] = np.nan
    runs = signatures(
        signature("r", affinity, family="ResNet", repeat=basic_blocks(9)),
        signature("s", rng.random(9), family="ResNet", repeat=basic_blocks(4)),
        signature("dead", [0.5] + [np.nan, 0.5] * 2, family="ResNet", repeat=[1, 2, 1, 2, 1]),
        signature("plain", rng.random(5), family="Digits plain", repeat=basic_blocks(2)),
    )
    contrasts = residual_contrast(runs).set_index("model")
    assert list(contrasts.index) == ["r", "s", "dead", "all"]
    row = contrasts.loc["r"]
    after, others = affinity[2::2], np.r_[affinity[0], affinity[1::2]]
    others = others[np.isfinite(others)]
    assert (row["after"], row["others"]) == (9, 9)
    assert row["difference"] == pytest.approx(after.mean() - others.mean())
    assert row["median_after"] == pytest.approx(np.median(after))
    theirs = stats.mannwhitneyu(after, others)
    assert row["cliffs_delta"] == pytest.approx(2 * theirs.statistic / 81 - 1)
    assert contrasts.loc[["r", "s", "dead"], "p"].isna().all()
    total, two = contrasts.loc["all"], contrasts.loc[["r", "s"], "difference"].to_numpy(float)
    assert (total["level"], total["n"]) == ("all", 2)
    assert (total["difference"], total["p"]) == (pytest.approx(two.mean()), signs_p(two))
    assert "after an addition" in contrasts.loc["dead", "reason"]
    assert provenance_of(residual_contrast(runs)).runs == 4


def alternating(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return scores whose neighbours differ and whose next but one are alike, by chance alone."""
    return 0.5 + 0.05 * lfilter([1.0], [1.0, 0.0, -0.9], rng.normal(size=n + 100))[100:]


def test_chance_alternation_is_no_difference_between_sites() -> None:
    """Eight networks without a difference: 5 % of the tests reject, by sites a fifth and more."""
    rng, rejected, by_sites = RNG(15), 0, 0
    for _ in range(200):
        scores = np.array([alternating(rng, 19) for _ in range(8)])
        after, others = scores[:, 2::2], np.c_[scores[:, 0], scores[:, 1::2]]
        rejected += signs_p(after.mean(axis=1) - others.mean(axis=1)) <= 0.05
        by_sites += stats.mannwhitneyu(after[0], others[0]).pvalue <= 0.05
    assert rejected <= 0.08 * 200 < 0.2 * 200 < by_sites


def pair(depth: int, lift: float, seed: int, **values) -> list[pd.DataFrame]:
    scores = RNG(seed).uniform(0.3, 0.6, depth)
    return [
        signature(f"digits_resnet{depth}", scores + lift, **values),
        signature(f"digits_plain{depth}", scores, **values),
    ]


def test_twins_are_compared_site_by_site() -> None:
    runs = signatures(*pair(14, 0.1, 1), *pair(20, 0.2, 2), *pair(26, 0.3, 3))
    runs = signatures(runs, signature("digits_vgg7", [0.5] * 5), signature("resnet9", [0.5] * 5))
    result = twins(runs)
    pairs, (total,) = result.iloc[:-1], result.iloc[-1:].to_dict("records")
    assert list(pairs["residual"]) == ["digits_resnet14", "digits_resnet20", "digits_resnet26"]
    assert pairs["difference"].tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert pairs["n"].tolist() == [14, 20, 26]
    assert pairs["p"].isna().all()
    assert (total["level"], total["n"]) == ("all", 3)
    assert total["difference"] == pytest.approx(0.2)
    assert total["p"] == 2 / 2**3


def test_twins_on_several_datasets_are_no_more_pairs() -> None:
    """The same networks on other images do not make signs less likely to be chance."""
    runs = [*pair(14, 0.1, 1), *pair(20, 0.2, 2), *pair(26, 0.3, 3)]
    again = [run.assign(run_id=run["run_id"] + "s", pooling="sum") for run in runs]
    pairs = twins(signatures(*runs, *again))
    every = pairs[pairs["level"] == "all"]
    assert every["dataset"].tolist() == ["digits", "digits, pooled sum"]
    assert every["n"].tolist() == [3, 3]
    assert every["p"].tolist() == [0.25, 0.25]


def test_a_pair_of_twins_counts_once_and_with_trained_weights() -> None:
    runs = [*pair(14, 0.1, 1), *pair(20, 0.2, 2)]
    for seed in (3, 4):
        again = pair(14, 0.4, seed, checkpoint=f"seed {seed}")
        runs += [run.assign(run_id=run["run_id"] + f"@{seed}") for run in again]
    born = pair(26, 0.9, 5, checkpoint="init:0")
    (total,) = twins(signatures(*runs, *born)).query("level == 'all'").to_dict("records")
    assert (total["n"], total["p"]) == (2, 0.5)
    assert total["difference"] == pytest.approx(((0.1 + 0.4 + 0.4) / 3 + 0.2) / 2)
    (total,) = twins(signatures(*born)).query("level == 'all'").to_dict("records")
    assert (total["n"], total["reason"]) == (0, "nothing that counts can be compared")
    (total,) = twins(signatures(*born), untrained=True).query("level == 'all'").to_dict("records")
    assert total["difference"] == pytest.approx(0.9)


def test_twins_agree_with_scipy() -> None:
    one, other = pair(20, 0.0, 4)
    one["affinity"] += RNG(5).normal(0.02, 0.05, 20)
    one.loc[3, "affinity"] = np.nan
    row = twins(signatures(one, other)).iloc[0]
    a, b = np.delete(one["affinity"], 3), np.delete(other["affinity"], 3)
    assert row["n"] == 19
    assert row["difference"] == pytest.approx(np.median(a) - np.median(b))
    assert (row["std_residual"], row["std_plain"]) == pytest.approx((a.std(ddof=1), b.std(ddof=1)))


def test_twins_must_match_in_all_but_the_shortcuts() -> None:
    one, other = pair(14, 0.1, 1)
    assert twins(signatures(one, other.assign(dataset="cifar"))).empty
    assert twins(signatures(one, other.assign(checkpoint="init:0"))).empty
    assert twins(one).empty
    shorter = twins(signatures(one, other.head(9)))
    assert shorter["reason"].tolist() == [
        "14 sites against 9",
        "nothing that counts can be compared",
    ]
    same = twins(signatures(one, one.assign(run_id="p", architecture="digits_plain14")))
    assert same["difference"].tolist() == [0, 0]
    assert same["reason"].tolist() == ["", "one network: no test"]
    dead = twins(signatures(one, other.assign(affinity=np.nan)))
    assert dead["reason"].iloc[0] == "no site has an affinity in both"


# Checkpoints of one architecture


def checkpoints(count: int, noise: float, sites: int = 12) -> list[pd.DataFrame]:
    rng = RNG(7)
    shape = rng.random(sites)
    return [
        signature(
            f"r{number}", shape + noise * rng.normal(size=sites), architecture="resnet50",
            checkpoint=f"ssl:{number}", cka=rng.random(sites), norm=rng.gamma(2, 200, sites),
        )
        for number in range(count)
    ]  # fmt: skip


def test_checkpoints_of_one_architecture() -> None:
    runs = checkpoints(4, 0.05)
    untrained = runs[0].assign(run_id="i", checkpoint="init:0", affinity=0.1)
    result = robustness(signatures(*runs, untrained, signature("alone", [0.5] * 9)))
    assert set(result["architecture"]) == {"resnet50"}
    by_metric = result.set_index("metric")
    for metric in ("affinity", "norm"):
        row, table = by_metric.loc[metric], np.array([run[metric] for run in runs])
        means = table.mean(axis=1)
        assert row["n"] == 4
        assert row["mean"] == pytest.approx(means.mean())
        assert row["std"] == pytest.approx(means.std(ddof=1))
        assert row["relative_std"] == pytest.approx(means.std(ddof=1) / means.mean())
        assert (row["lowest"], row["highest"]) == pytest.approx((means.min(), means.max()))
        pairs = np.corrcoef(table)[np.triu_indices(4, 1)]
        assert row["correlation"] == pytest.approx(pairs.mean())
        assert row["correlation_lowest"] == pytest.approx(pairs.min())
    assert by_metric.loc["affinity", "correlation"] > 0.9
    assert "no two checkpoints vary" in by_metric.loc["r2", "reason"]
    with_it = robustness(signatures(*runs, untrained), ["affinity"], untrained=True)
    assert with_it["n"].tolist() == [5]


def test_of_repeats_the_last_stands_whole() -> None:
    """Two runs of one checkpoint are not spliced where the newer one lacks a site's score."""
    one, other = checkpoints(2, 0.1, sites=6)
    older = one.assign(run_id="older", affinity=0.9)
    one.loc[2, "affinity"] = np.nan
    result, expected = (
        robustness(signatures(*runs), ["affinity"]) for runs in ((older, one, other), (one, other))
    )
    assert result.equals(expected)


def test_checkpoints_with_gaps_and_nothing_to_compare() -> None:
    one, other = checkpoints(2, 0.1, sites=6)
    one.loc[[0, 1, 2], "affinity"] = np.nan
    (row,) = robustness(signatures(one, other), ["affinity"]).to_dict("records")
    assert (row["n"], math.isnan(row["correlation"])) == (2, True)
    assert row["mean"] == pytest.approx((one["affinity"].mean() + other["affinity"].mean()) / 2)
    one["affinity"] = np.nan
    (row,) = robustness(signatures(one, other), ["affinity"]).to_dict("records")
    assert "one checkpoint has a value" in row["reason"]
    assert robustness(one).empty
    with pytest.raises(UnknownName, match="sparse"):
        robustness(one, ["sparse"])
    with pytest.raises(SettingsError, match="no metric"):
        robustness(one, [])


# Other images


def dtw_plainly(x: np.ndarray, y: np.ndarray) -> float:
    """Return the DTW distance by its recursion."""
    cost = np.full((len(x) + 1, len(y) + 1), np.inf)
    cost[0, 0] = 0
    for i, a in enumerate(x, 1):
        for j, b in enumerate(y, 1):
            near = min(cost[i - 1, j], cost[i, j - 1], cost[i - 1, j - 1])
            cost[i, j] = (a - b) ** 2 + near
    return float(cost[-1, -1] ** 0.5)


def test_deviations_from_a_reference_dataset() -> None:
    rng = RNG(8)
    runs = {
        (name, dataset): signature(
            f"{name} on {dataset}", rng.random(9), architecture=name, dataset=dataset
        )
        for name in ("a", "b")
        for dataset in ("imagenet", "cifar10", "random")
    }
    runs["a", "cifar10"].loc[4, "affinity"] = np.nan
    only = signature("c", rng.random(4), dataset="cifar10")
    table = dataset_deviations(signatures(*runs.values(), only), "imagenet")
    assert list(zip(table["model"], table["dataset"], strict=True)) == [
        ("a", "cifar10"), ("a", "random"), ("b", "cifar10"), ("b", "random"),
    ]  # fmt: skip
    first, kept = table.iloc[0], [0, 1, 2, 3, 5, 6, 7, 8]
    here = runs["a", "cifar10"]["affinity"].to_numpy()
    there = runs["a", "imagenet"]["affinity"].to_numpy()
    assert first["sites"] == 8
    assert first["euclidean"] == pytest.approx(np.linalg.norm((here - there)[kept]))
    assert first["mean_difference"] == pytest.approx((here - there)[kept].mean())
    assert first["dtw"] == pytest.approx(dtw_plainly(here[kept], there))
    assert (table["dtw"] <= table["euclidean"] + 1e-12).iloc[1:].all()
    summed = dataset_summary(table).set_index("dataset")
    random = table[table["dataset"] == "random"]
    assert summed.loc["random", "n"] == 2
    assert summed.loc["random", "dtw"] == pytest.approx(random["dtw"].mean())
    assert summed.loc["random", "euclidean_std"] == pytest.approx(random["euclidean"].std())


def test_the_reference_is_what_most_models_were_measured_on() -> None:
    runs = [signature(f"{n}{d}", [0.1, 0.2], architecture=n, dataset=d)
            for n, d in ("ax", "bx", "az", "bz", "ay")]  # fmt: skip
    assert set(dataset_deviations(signatures(*runs))["reference"]) == {"x"}
    # Networks measured there alone do not make a dataset one to compare with.
    alone = [signature(n, [0.1], architecture=n, dataset="w") for n in "cdefg"]
    assert set(dataset_deviations(signatures(*runs, *alone))["reference"]) == {"x"}
    with pytest.raises(UnknownName, match="imagenet"):
        dataset_deviations(signatures(*runs), "imagenet")
    with pytest.raises(SettingsError, match="no signature"):
        dataset_deviations(runs[0].head(0))


def test_datasets_with_checkpoints_gaps_and_other_sites() -> None:
    runs = [
        signature(f"{c}{d}", [0.1, 0.4, 0.3], architecture="a", checkpoint=c, dataset=d)
        for c in ("u", "v")
        for d in ("x", "y")
    ]
    runs[1]["affinity"] = np.nan
    runs[3]["site"] += 10
    table = dataset_deviations(signatures(*runs), "x").set_index("model")
    assert list(table.index) == ["a@u", "a@v"]
    assert table.loc["a@u", "reason"].endswith("on this dataset")
    assert table.loc["a@v", "reason"].endswith("on both")
    # Distances without an order of sites in common are still to be had.
    assert table.loc["a@v", "dtw"] == 0
    assert math.isnan(table.loc["a@v", "euclidean"])
    alone = dataset_summary(table.reset_index())
    assert alone["reason"].tolist() == ["one model: no deviation over models"]
    assert alone[["n", "n_euclidean"]].to_numpy().tolist() == [[1, 0]]
    assert dataset_summary(table.reset_index().head(0)).empty


def test_a_mean_over_datasets_is_over_architectures_with_trained_weights() -> None:
    moved = {("a", "u"): 0.1, ("a", "v"): 0.3, ("a", "init:0"): 0.9, ("b", "u"): 0.4}
    runs = [
        signature(f"{n}{c}{d}", [0.1 + d * by], architecture=n, checkpoint=c, dataset=f"d{d}")
        for (n, c), by in moved.items()
        for d in (0, 1)
    ]
    table = dataset_deviations(signatures(*runs), "d0")
    assert len(table) == 4
    (row,) = dataset_summary(table).to_dict("records")
    assert (row["n"], row["n_euclidean"]) == (2, 2)
    assert row["euclidean"] == row["dtw"] == pytest.approx((0.2 + 0.4) / 2)
    (row,) = dataset_summary(table, untrained=True).to_dict("records")
    assert row["dtw"] == pytest.approx(((0.1 + 0.3 + 0.9) / 3 + 0.4) / 2)


# Before and after training


def test_training_against_initialisation() -> None:
    rng = RNG(9)
    born, grown = np.linspace(0.5, 0.95, 12), rng.random(12)
    runs = [
        signature("i0", born, architecture="vgg", checkpoint="init:0"),
        signature("i1", born + 0.01, architecture="vgg", checkpoint="init:1"),
        signature("t", grown, architecture="vgg", checkpoint="bundled"),
        signature("other", grown, architecture="net", checkpoint="bundled"),
    ]
    shifts = training_shift(signatures(*runs))
    assert list(zip(shifts["initial"], shifts["trained"], strict=True))[:-1] == [
        ("init:0", "bundled"), ("init:1", "bundled"),
    ]  # fmt: skip
    row = shifts.iloc[0]
    assert row["shift"] == pytest.approx((grown - born).mean())
    assert row["lowered"] == pytest.approx((grown < born).mean())
    assert row["trend_initial"] == pytest.approx(1)
    order = np.arange(12)
    assert row["trend_trained"] == pytest.approx(stats.spearmanr(order, grown).statistic)
    assert row["dtw"] == pytest.approx(dtw_plainly(born, grown))
    assert row["euclidean"] == pytest.approx(np.linalg.norm(grown - born))
    total = shifts.iloc[-1]
    assert (total["level"], total["n"], total["reason"]) == ("all", 1, "one network: no test")
    assert total["shift"] == pytest.approx(shifts["shift"].iloc[:2].mean())


def test_training_is_tested_over_architectures() -> None:
    rng, moves = RNG(10), [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    runs = []
    for place, move in enumerate(moves):
        born = rng.uniform(0.3, 0.4, 9)
        names = {"architecture": f"a{place}"}
        runs += [
            signature(f"i{place}", born, checkpoint="init:0", **names),
            signature(f"t{place}", born + move, **names),
            signature(f"u{place}", born + move, checkpoint="again", **names),
        ]
    result = training_shift(signatures(*runs))
    assert result["p"].notna().tolist() == [False] * 12 + [True]
    assert result["n"].iloc[-1] == 6
    assert result["p"].iloc[-1] == signs_p(np.array(moves)) == 2 / 2**6


def test_a_network_measured_again_weighs_no_more() -> None:
    """Neither a trained one, whose mean affinity falls, nor the random weights before it."""
    born = [0.3, 0.4, 0.5, 0.6]
    runs = [
        signature(f"{checkpoint}{n}", np.add(born, shift), architecture="ResNet", family="ResNet",
                  checkpoint=checkpoint, repeat=[1, 2] * 2)
        for checkpoint, shift, times in (
            ("init:0", 0.0, 3), ("init:1", 0.1, 1), ("w", -0.1, 3), ("v", 0.3, 1),
        )
        for n in range(times)
    ]  # fmt: skip
    shifts = training_shift(signatures(*runs))
    assert len(shifts) == 4 * 4 + 1
    assert shifts["shift"].iloc[-1] == pytest.approx(np.mean([-0.1, 0.3]) - np.mean([0.0, 0.1]))
    sites = signatures(*(
        run.assign(affinity=run["affinity"] + (run["repeat"] - 1) * (run["checkpoint"] == "v"))
        for run in runs
    ))  # fmt: skip
    contrast = residual_contrast(sites)
    networks = contrast[contrast["level"] == "network"].drop_duplicates("checkpoint")
    each = networks.set_index("checkpoint")["difference"]
    total = contrast[contrast["level"] == "all"].iloc[0]
    assert total["difference"] == pytest.approx((each["v"] + each["w"]) / 2)


def test_training_with_little_to_say() -> None:
    def shifted(born: list[float], grown: list[float]) -> pd.Series:
        runs = (
            signature("i", born, architecture="a", checkpoint="init:0"),
            signature("t", grown, architecture="a"),
        )
        return training_shift(signatures(*runs)).iloc[0]

    assert "3 sites, at least 4" in shifted([0.1, 0.2, 0.3], [0.2, 0.2, 0.2])["reason"]
    assert shifted([0.1, 0.2, 0.3], [0.2, 0.2, 0.2])["shift"] == pytest.approx(0)
    assert "no site" in shifted([np.nan], [0.2])["reason"]
    flat = shifted([0.5] * 4, [0.1, 0.2, 0.3, 0.4])
    assert "initial affinity does not vary" in flat["reason"]
    assert math.isnan(flat["trend_initial"])
    assert training_shift(signature("t", [0.5])).empty


# Real networks


def test_poolings_and_sources_of_one_architecture_stand_apart() -> None:
    """Two poolings on two datasets, and one name in two sources: four comparisons, not one."""
    rng = RNG(12)
    runs = [
        signature(
            f"{source}{pooling}{dataset}", rng.random(6), architecture="resnet18", source=source,
            pooling=pooling, dataset=dataset,
        )
        for source in ("timm", "torchvision")
        for pooling in ("mean", "sum")
        for dataset in ("x", "y")
    ]  # fmt: skip
    table = dataset_deviations(signatures(*runs), "x")
    assert sorted(set(zip(table["model"], table["dataset"], table["reference"], strict=True))) == [
        (f"{source}:resnet18", f"y{pooling}", f"x{pooling}")
        for source in ("timm", "torchvision")
        for pooling in ("", ", pooled sum")
    ]
    summed = dataset_summary(table)
    assert sorted(summed["dataset"]) == ["y", "y, pooled sum"]
    assert set(summed["n"]) == {2}
    both = [run.assign(run_id=run["run_id"] + "o", checkpoint="other") for run in runs]
    alike = robustness(signatures(*runs, *both), ["affinity"])
    assert set(alike["dataset"]) == {"x", "x, pooled sum", "y", "y, pooled sum"}
    assert len(set(robustness_rows(alike)["panel"])) == len(alike) == 8
    born = [run.assign(run_id=run["run_id"] + "i", checkpoint="init:0") for run in runs]
    together = signatures(*runs, *born)
    assert set(training_shift(together)["dataset"]) == set(alike["dataset"])
    assert training_rows(together)["panel"].nunique() == 8


@pytest.mark.real_data
@pytest.mark.slow(seconds=15)
@pytest.mark.long
def test_cifar_resnets_are_more_linear_after_their_additions(tmp_path: Path) -> None:
    from tests.acceptance.command import survey

    dataset = f"folder:{shared('data/cifar10-sample')}[:512]"
    files = {20: "resnet20-12fca82f.th", 32: "resnet32-d509ac18.th", 44: "resnet44-014dd654.th"}
    for depth, file in files.items():
        survey(
            "run", "--model", f"small:cifar_resnet{depth}", "--dataset", dataset,
            "--checkpoint", f"file:{shared(f'data/checkpoints/{file}')}",
            "--images-per-score", "512", "--runner", "local", home=tmp_path,
        )  # fmt: skip
    scores = frames.signatures(tmp_path)
    after = scores[post_shortcut(scores)]
    # The networks say themselves where they add: the second ReLU of a block follows the addition.
    names = scores["site_name"].str.fullmatch(r"layer\d\.\d\.relu2#1")
    assert (names == post_shortcut(scores)).all()
    assert len(after) == 9 + 15 + 21
    contrasts = residual_contrast(scores)
    assert list(contrasts["level"]) == ["network"] * 3 + ["all"]
    assert (contrasts["mean_after"] > contrasts["mean_others"] + 0.15).all()
    assert (contrasts["cliffs_delta"] > 0.8).all()
    assert contrasts["p"].iloc[-1] == 2 / 2**3
