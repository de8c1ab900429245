"""Correlations agree with scipy, say what they stand on, and why they are blank."""

from __future__ import annotations

import csv
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.answers import relations
from analysis.answers.material import Material
from analysis.answers.relations import MetricCorrelations
from analysis.choices import PAPER_METRICS, PAPER_NAMES
from analysis.data.provenance import provenance_of
from analysis.relations.correlation_sentences import correlations_finding
from analysis.relations.metric_correlations import correlations, mean_correlations, mean_numbers
from analysis.statistics.pearson import LEAST_SITES, pearson, population_std
from survey.errors import SettingsError, UnknownName
from tests.analysis.made import signature, signatures
from tests.shared_data import shared

RNG = np.random.default_rng


def noisy(name: str, seed: int, sites: int = 30, **values) -> pd.DataFrame:
    """Return a run whose metrics follow its affinity more or less, one each way."""
    rng = RNG(seed)
    affinity = rng.random(sites)
    columns = {
        metric: (-1) ** place * place * affinity + rng.normal(size=sites)
        for place, metric in enumerate(PAPER_METRICS)
    }
    return signature(name, affinity, **columns, **values)


def at(result: pd.DataFrame, level: str, name: str, metric: str = "cka") -> pd.Series:
    chosen = result[(result["level"] == level) & (result["name"] == name)]
    (row,) = chosen[chosen["metric"] == metric].to_dict("records")
    return pd.Series(row)


def test_the_finding_counts_those_that_have_the_metric() -> None:
    """R2 does not vary in two families of three: the third alone follows the affinity by it."""
    runs = []
    for family in "abc":
        for place in range(3):
            run = noisy(f"{family}{place}", len(runs), family=family)
            r2 = run["affinity"] + 0.01 * run["cka"] if family == "a" else 0.5
            runs.append(run.assign(r2=r2))
    table = correlations(signatures(*runs), ["cka", "r2"])
    assert "3 models; 3 of 3" in correlations_finding(table, "model")
    assert "1 family" in correlations_finding(table, "family")


def test_a_model_agrees_with_scipy() -> None:
    run = noisy("a", 1, sites=60)
    table = correlations(run)
    for metric in PAPER_METRICS:
        row, theirs = at(table, "model", "a", metric), stats.pearsonr(run["affinity"], run[metric])
        assert row["n"] == 60
        assert row["reason"] == ""
        assert math.isnan(row["std"])
        assert row["pearson"] == pytest.approx(theirs.statistic, abs=1e-12)
        # Independent sites are worth nearly as many; scipy takes them for all.
        assert 50 < row["n_effective"] <= 60
        interval = theirs.confidence_interval(0.95)
        wide, narrow = row["high"] - row["low"], interval.high - interval.low
        assert 0.9 < wide / narrow < 1.5
        r, degrees = theirs.statistic, row["n_effective"] - 2
        expected = 2 * stats.t.sf(abs(r) * (degrees / (1 - r * r)) ** 0.5, degrees)
        assert row["p"] == pytest.approx(expected, rel=1e-9)


def test_means_over_models_agree_with_scipy() -> None:
    runs = [noisy(name, seed) for seed, name in enumerate("abcd")]
    runs += [noisy("e", 9, family="G")]
    table = correlations(signatures(*runs))
    for level, name, count in (("family", "F", 4), ("all", "all", 5)):
        row = at(table, level, name, "norm")
        each = [stats.pearsonr(run["affinity"], run["norm"]).statistic for run in runs[:count]]
        # Of all, each family counts once.
        theirs = stats.ttest_1samp(each if level == "family" else [np.mean(each[:4]), each[4]], 0)
        interval = theirs.confidence_interval(0.95)
        assert (row["n"], row["families"]) == (count, 1 if level == "family" else 2)
        assert row["pearson"] == pytest.approx(np.mean(each), abs=1e-12)
        assert row["std"] == pytest.approx(np.std(each, ddof=1), abs=1e-12)
        assert row["p"] == pytest.approx(theirs.pvalue, rel=1e-9)
        middle = np.mean(each) if level == "family" else np.mean([np.mean(each[:4]), each[4]])
        if level == "all":
            assert row["family_mean"] == pytest.approx(middle, abs=1e-12)
        assert row["low"] == pytest.approx(max(interval.low, -1), abs=1e-12)
        assert row["high"] == pytest.approx(min(interval.high, 1), abs=1e-12)


def test_holm_is_over_all_tests_of_a_level() -> None:
    runs = (
        noisy(name, seed, family=family)
        for seed, (name, family) in enumerate(zip("abc", "FFG", strict=True))
    )
    table = correlations(signatures(*runs))
    for level, tests in (("model", 15), ("family", 5), ("all", 5)):
        rows = table[(table["level"] == level) & table["p"].notna()].sort_values("p")
        assert len(rows) == tests
        stepped = np.minimum(1, np.maximum.accumulate(rows["p"] * np.arange(tests, 0, -1)))
        assert rows["p_corrected"].to_numpy() == pytest.approx(stepped.to_numpy(), rel=1e-12)
        rates = stats.false_discovery_control(rows["p"])
        assert rows["q"].to_numpy() == pytest.approx(rates, rel=1e-12)
        assert (rows["q"] <= rows["p_corrected"]).all()


@pytest.mark.parametrize("sizes", [(4,) * 8, (3, 3, 2), (12, 3, 1, 1, 1)])
def test_alike_families_are_no_independent_architectures(sizes: tuple[int, ...]) -> None:
    """Correlations of random sign, one a family: their mean is 0."""
    rng, found, tries = RNG(5), 0, 400
    names = np.repeat([f"F{each}" for each in range(len(sizes))], sizes)
    for _ in range(tries):
        shared = dict(zip(dict.fromkeys(names), rng.normal(size=len(sizes)), strict=True))
        values = [shared[name] + 0.3 * rng.normal() for name in names]
        index = pd.MultiIndex.from_arrays([names, range(len(names))], names=["unit", "place"])
        found += mean_numbers(pd.Series(values, index) / 10, "all")["p"] <= 0.05
    assert found / tries <= 0.08


def drawn_store(seed: int) -> pd.DataFrame:
    """Return runs of few and of many sites, some without values or without any variation."""
    rng = RNG(seed)
    runs = []
    for number, sites in enumerate(rng.integers(1, 20, 8)):
        family, checkpoint = f"F{number % 3}", rng.choice(["w", "init:0"])
        run = noisy(f"m{number}", seed + number, sites, family=family, checkpoint=checkpoint)
        run["architecture"] = f"a{number // 2}"
        values = run[["affinity", *PAPER_METRICS]]
        run[values.columns] = values.mask(rng.random(values.shape) < 0.1)
        run.loc[:, rng.choice(PAPER_METRICS)] = 0.25
        runs.append(run)
    return signatures(*runs)


@pytest.mark.parametrize("seed", range(4))
def test_a_run_has_the_same_coefficients_to_the_last_bit_beside_any_others(seed: int) -> None:
    store = drawn_store(seed)
    columns = ["name", "family", "metric", "n", "pearson", "reason"]
    together = correlations(store, tested=False)
    models = together[together["level"] == "model"]
    each = [
        correlations(run, tested=False)[: len(PAPER_METRICS)] for _, run in store.groupby("run_id")
    ]
    pd.testing.assert_frame_equal(
        models[columns], pd.concat(each, ignore_index=True)[columns], check_exact=True
    )
    # Nor does it matter that rows of others come between its own.
    mixed = correlations(store.sort_values("site", kind="stable"), tested=False)
    assert set(mixed["pearson"].dropna()) == set(together["pearson"].dropna())
    for row in models.dropna(subset="pearson").to_dict("records"):
        run = store[store["model"] == row["name"]].dropna(subset=["affinity", row["metric"]])
        theirs = stats.pearsonr(run["affinity"], run[row["metric"]]).statistic
        assert row["pearson"] == pytest.approx(theirs, abs=1e-12)


def test_means_are_the_same_without_the_tests_of_models() -> None:
    store = drawn_store(5)
    full, means = correlations(store), correlations(store, tested=False)
    given = ["level", "name", "metric", "n", "pearson", "std", "reason"]
    pd.testing.assert_frame_equal(full[given], means[given], check_exact=True)
    over = [table[table["level"] != "model"] for table in (full, means)]
    pd.testing.assert_frame_equal(*over, check_exact=True)
    assert full.attrs == means.attrs
    alone = mean_correlations(store)
    pd.testing.assert_frame_equal(alone, over[1].reset_index(drop=True), check_exact=True)
    models = means[means["level"] == "model"]
    assert alone.attrs == means.attrs | {"models": models["name"].nunique()}
    assert models[["n_effective", "low", "high", "p", "q"]].isna().all(axis=None)


def test_a_page_has_a_row_a_model_where_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    material = Material("nowhere")
    material.signatures = signatures(noisy("a", 1), noisy("b", 2), noisy("c", 3))
    answer = MetricCorrelations(material)
    tables = {table.name: table.rows for table in answer.tables()}
    assert set(tables) == {"correlations-all", "correlations-family", "correlations-model"}
    assert tables["correlations-model"]["p"].notna().all()
    monkeypatch.setattr(relations, "MOST_TABLED", 2)
    names = [table.name for table in answer.tables()]
    assert names == ["correlations-all", "correlations-family"]


def test_what_does_not_vary_is_blank() -> None:
    steps = np.linspace(0.1, 0.9, 20)
    saturated = 1 - 1e-13 * RNG(0).random(20)
    runs = [signature("a", steps, cka=steps, r2=saturated), signature("b", np.full(20, 0.3))]
    table = correlations(signatures(*runs))
    assert at(table, "model", "a")["pearson"] == pytest.approx(1)
    for name, metric, words in (
        ("a", "r2", "r2 does not vary"),
        ("a", "norm", "norm does not vary"),
        ("b", "cka", "affinity does not vary"),
    ):
        row = at(table, "model", name, metric)
        assert words in row["reason"]
        assert row[["pearson", "low", "high", "p", "p_corrected"]].isna().all()
        assert row["n"] == 20
    family = at(table, "family", "F")
    assert (family["n"], family["pearson"]) == (1, pytest.approx(1))
    assert "one architecture" in family["reason"]
    assert family[["std", "low", "high", "p"]].isna().all()
    assert at(table, "all", "all", "r2")["reason"].startswith("no architecture")


def test_a_mean_is_over_architectures_with_trained_weights() -> None:
    checkpoints = [
        noisy(f"a{seed}", seed, architecture="a", checkpoint=f"seed {seed}") for seed in range(5)
    ]
    random = noisy("b0", 8, architecture="b", checkpoint="init:0")
    runs = [*checkpoints, random, noisy("b", 9), noisy("c", 10, checkpoint="init:1", family="G")]
    each = [stats.pearsonr(run["affinity"], run["norm"]).statistic for run in runs]
    table = correlations(signatures(*runs))
    for level, name in (("family", "F"), ("all", "all")):
        row = at(table, level, name, "norm")
        assert row["n"] == 2
        assert row["pearson"] == pytest.approx((np.mean(each[:5]) + each[6]) / 2)
    assert at(table, "family", "G", "norm")["reason"].startswith("no architecture")
    assert at(table, "model", "c", "norm")["pearson"] == pytest.approx(each[7])
    with_random = correlations(signatures(*runs), untrained=True)
    row = at(with_random, "all", "all", "norm")
    assert row["n"] == 3
    means = [np.mean(each[:5]), np.mean(each[5:7]), each[7]]
    assert row["pearson"] == pytest.approx(np.mean(means))


def test_a_checkpoint_measured_again_weighs_no_more() -> None:
    runs = [noisy(f"a{seed}", seed, architecture="a", checkpoint=f"c{seed}") for seed in (0, 1)]
    again = [runs[1].assign(run_id=f"again{n}", model=f"again{n}") for n in range(3)]
    once, repeated = (correlations(signatures(*each)) for each in (runs, [*runs, *again]))
    for level, name in (("family", "F"), ("all", "all")):
        expected = at(once, level, name)["pearson"]
        assert at(repeated, level, name)["pearson"] == pytest.approx(expected)
        assert at(repeated, level, name)["n"] == 1


def test_frames_put_together_may_repeat_their_index() -> None:
    runs = [noisy(name, seed) for seed, name in enumerate("abc")]
    together = pd.concat(runs)
    pd.testing.assert_frame_equal(
        correlations(together), correlations(pd.concat(runs, ignore_index=True))
    )


def test_rows_in_any_order_are_the_same_sites() -> None:
    runs = signatures(noisy("b", 1), noisy("a", 2))
    runs["affinity"] = runs.groupby("run_id")["affinity"].cumsum()
    runs["cka"] = runs["affinity"] + runs["cka"] / 5
    mixed = runs.sample(frac=1, random_state=0)
    expected, table = (correlations(each, ["cka"]).set_index("name") for each in (runs, mixed))
    for column in ("n_effective", "low", "high", "p"):
        assert table.loc[expected.index, column].tolist() == pytest.approx(
            expected[column].tolist(), nan_ok=True
        )
    assert table.attrs == expected.attrs


def test_sites_without_a_value_are_left_out() -> None:
    run = noisy("a", 3, sites=12)
    run.loc[[0, 4], "affinity"] = np.nan
    run.loc[[4, 7], "cka"] = np.nan
    kept = run.drop(index=[0, 4, 7])
    row = at(correlations(run), "model", "a")
    assert row["n"] == 9
    assert row["pearson"] == pytest.approx(np.corrcoef(kept["affinity"], kept["cka"])[0, 1])


@pytest.mark.parametrize("sites", [0, 1, 3, 4])
def test_few_sites(sites: int) -> None:
    run = noisy("a", 4, sites=5)
    run.loc[sites:, "cka"] = np.nan
    row = at(correlations(run), "model", "a")
    assert row["n"] == sites
    assert bool(row["reason"]) == (sites < LEAST_SITES)
    assert math.isnan(row["p"]) == (sites < LEAST_SITES)


def test_a_perfect_correlation_has_an_interval_of_its_own() -> None:
    steps = np.arange(8) / 8
    table = correlations(signature("a", steps, cka=2 * steps + 1, norm=-steps))
    for metric, sign in (("cka", 1), ("norm", -1)):
        row = at(table, "model", "a", metric)
        assert row["pearson"] == pytest.approx(sign, abs=1e-12)
        assert (row["low"], row["high"]) == pytest.approx((sign, sign), abs=1e-6)
        assert row["p"] < 1e-12


def test_scale_and_shift_change_nothing() -> None:
    x, y = RNG(5).random((2, 40))
    assert pearson(3 * x + 7, y) == pytest.approx(pearson(x, y), abs=1e-12)
    assert pearson(-x, y) == pytest.approx(-pearson(x, y), abs=1e-12)
    assert pearson(x, y) == pearson(y, x)
    # Far from zero the plain formula would lose all digits.
    assert pearson(x + 1e8, y) == pytest.approx(pearson(x, y), abs=1e-6)


def test_models_alike_have_no_test() -> None:
    table = correlations(signatures(noisy("a", 1), noisy("b", 1)))
    family = at(table, "family", "F")
    assert (family["std"], family["n"]) == (pytest.approx(0, abs=1e-15), 2)
    assert "alike" in family["reason"]
    assert math.isnan(family["p"])


def test_a_family_that_nobody_knows_counts_over_all_alone() -> None:
    table = correlations(signatures(noisy("a", 1, family=None), noisy("b", 2)))
    assert set(table["name"]) == {"a", "b", "F", "all"}
    assert at(table, "all", "all")["n"] == 2


def test_nothing_to_correlate() -> None:
    assert correlations(noisy("a", 1).head(0)).empty
    with pytest.raises(SettingsError, match="no metric"):
        correlations(noisy("a", 1), [])
    with pytest.raises(UnknownName, match="spars"):
        correlations(noisy("a", 1), ["sparsity_chang"])
    for name in ("run_id", "affinity"):
        with pytest.raises(UnknownName, match=f"unknown metric '{name}'"):
            correlations(noisy("a", 1), [name])


def test_the_result_carries_where_it_comes_from() -> None:
    table = correlations(signatures(noisy("a", 1), noisy("b", 2)))
    assert provenance_of(table).runs == 2
    assert provenance_of(table).selection == "made up"


@pytest.mark.slow(seconds=2)
def test_the_interval_of_a_model_holds_the_truth() -> None:
    """Bivariate normal with correlation 0.6, 12 sites, 200 models in one call."""
    rng, truth = RNG(11), 0.6
    x, noise = rng.normal(size=(2, 2400))
    runs = signature("all", x, cka=truth * x + (1 - truth**2) ** 0.5 * noise)
    runs["run_id"] = np.repeat([f"m{number}" for number in range(200)], 12)
    table = correlations(runs, ["cka"])
    models = table[table["level"] == "model"]
    held = ((models["low"] <= truth) & (truth <= models["high"])).mean()
    # Twelve sites leave their dependence nearly unknown, which widens intervals.
    assert held >= 0.93


def test_the_paper_prints_the_deviation_over_n() -> None:
    """Its Table 1 follows from its Table 2 for the families where the two agree."""
    rows = {}
    for table, key in (("table1_pearson_by_family", "family"), ("table2_pearson", "model")):
        with shared(f"facts/paper_{table}.csv").open() as file:
            rows[table] = {row[key]: row for row in csv.DictReader(file)}
    swins = ("swin_t", "swin_s", "swin_b")
    for name in PAPER_NAMES.values():
        each = [float(rows["table2_pearson"][model][name]) for model in swins]
        std = population_std(np.std(each, ddof=1), len(each))
        printed = float(rows["table1_pearson_by_family"]["Swins"][f"{name}_std"])
        assert abs(std - printed) < 0.006


def test_means_are_over_models_of_one_dataset_and_pooling() -> None:
    """The same network on other images is no other network."""
    runs = [
        noisy(f"{name}{dataset}{pooling}", seed, dataset=dataset, pooling=pooling)
        for seed, (name, dataset, pooling) in enumerate(
            (n, *where) for where in (("x", "mean"), ("y", "mean"), ("x", "sum")) for n in "abc"
        )
    ]
    table = correlations(signatures(*runs), ["cka"])
    for level, name in (("family", "F"), ("all", "all")):
        means = table[(table["level"] == level) & (table["name"] == name)].set_index("dataset")
        assert list(means.index) == ["x", "x, pooled sum", "y"]
        for place, dataset in enumerate(("x", "y", "x, pooled sum")):
            group = table[table["level"] == "model"]["pearson"].iloc[3 * place : 3 * place + 3]
            assert means.loc[dataset, "n"] == 3
            assert means.loc[dataset, "pearson"] == pytest.approx(group.mean())
