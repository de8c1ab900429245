"""Figures of statistics: their rows hold the numbers, and their titles say what follows."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import linregress

from analysis.contrasts.checkpoints import robustness
from analysis.contrasts.datasets import dataset_deviations
from analysis.contrasts.residual_networks import post_shortcut
from analysis.figures import (
    correlation_chart,
    correlation_rows,
    dataset_chart,
    dataset_rows,
    density_rows,
    distribution_chart,
    distribution_rows,
    paper_chart,
    paper_rows,
    regression_chart,
    regression_rows,
    residual_chart,
    residual_rows,
    robustness_chart,
    robustness_rows,
    timeline_chart,
    timeline_rows,
)
from analysis.figures.files.vega import specification
from analysis.figures.timeline import crowded_years
from analysis.relations.accuracy_regressions import regressions
from analysis.relations.metric_correlations import correlations
from analysis.relations.score_shapes import BANDWIDTHS, shapes
from analysis.relations.timeline import timeline
from survey.errors import NothingToDraw
from tests.analysis.figures.drawn import marks, note, words
from tests.analysis.figures.frames import surveyed, with_gaps
from tests.analysis.made import signature, signatures

pytestmark = pytest.mark.slow(seconds=14)

METRICS = ("cka", "norm", "sparsity_change", "entropy_change", "r2")


def measured(models: int) -> pd.DataFrame:
    """Return signatures with every metric the paper correlates with."""
    frame, rng = surveyed(models), np.random.default_rng(1)
    for place, metric in enumerate(METRICS):
        frame[metric] = frame["affinity"] * place + rng.normal(0, 0.2, len(frame))
    return frame


def runs_of(signatures: pd.DataFrame) -> pd.DataFrame:
    """Return the runs behind signatures, with accuracies and characteristics."""
    rng = np.random.default_rng(2)
    names = ["run_id", "model", "source", "architecture", "family", "family_group", "checkpoint"]
    runs = signatures.drop_duplicates("run_id")[[*names, "dataset", "pooling"]]
    runs = runs.reset_index(drop=True)
    runs["measured_top1"] = rng.uniform(0.6, 0.9, len(runs))
    runs.loc[0, "measured_top1"] = np.nan
    runs["reported_top1"] = 0.75
    for name in ("depth", "parameters", "gflops"):
        runs[name] = rng.uniform(1, 100, len(runs))
    return runs


def test_models_of_a_year_lie_side_by_side_within_it():
    frame = timeline(surveyed(30).assign(year=lambda sites: sites["year"].where(
        sites["model"] != "vgg_1"
    )))  # fmt: skip
    rows = timeline_rows(frame)
    assert len(rows) == 29
    assert ((rows["time"] - rows["year"]).abs() <= 0.4).all()
    assert rows["time"].is_unique
    drawn = timeline_chart(frame)
    assert len(marks(drawn, "symbol")) == 29
    assert "1 model without a year" in words(drawn)
    by_year = rows.groupby("year")["median"].median()
    first, last = by_year.index[[0, -1]]
    assert f"from {by_year[first]:.2f} in {first} to {by_year[last]:.2f} in {last}" in words(drawn)


def test_where_a_model_lies_within_its_year_says_nothing_of_its_scores():
    frame = surveyed(30)
    places = timeline_rows(timeline(frame)).set_index("model")["time"]
    turned = frame.assign(affinity=1 - frame["affinity"], family=frame["family"].str[::-1])
    pd.testing.assert_series_equal(
        timeline_rows(timeline(turned)).set_index("model")["time"], places, check_like=True
    )
    one_year = timeline(surveyed(60).assign(year=2020))
    rows = timeline_rows(one_year)
    assert abs(rows["time"].corr(rows["median"])) < 0.3
    assert not rows["model"].is_monotonic_increasing


def test_a_year_of_many_models_is_a_box_of_their_medians():
    years = np.where(surveyed(24)["family"] == "Swin", 2021, 2015)
    frame = timeline(surveyed(24).assign(year=years))
    rows = timeline_rows(frame)
    group = rows.loc[rows["year"] == 2015]
    (box,) = crowded_years(rows).to_dict("records")
    assert (box["models"], box["year"]) == (len(group), 2015) == (22, 2015)
    quartiles = group["median"].quantile([0.25, 0.5, 0.75])
    result = [box[name] for name in ("first_quartile", "median", "third_quartile")]
    np.testing.assert_allclose(result, quartiles)
    assert (box["lowest"], box["highest"]) == (group["lowest"].min(), group["highest"].max())
    drawn = timeline_chart(frame)
    # The two Swins are marks, the others one box; a bar each and one for the year.
    assert [len(marks(drawn, kind)) for kind in ("symbol", "rule")] == [2, 3]
    assert "n = 22" in words(drawn)
    assert "more than 12 models" in words(drawn)
    every = timeline_chart(timeline(surveyed(24).assign(year=2015)))
    assert not marks(every, "symbol")
    assert "Marks:" not in words(every)


def test_a_timeline_of_nothing_says_so():
    assert "No model has both" in words(timeline_chart(timeline(surveyed(2).assign(year=None))))
    assert "Models of 2012" in words(timeline_chart(timeline(surveyed(1))))


def test_distributions_hold_every_scored_site_and_its_shape():
    frame = with_gaps(surveyed(9), 0, 1)
    table = shapes(frame, draws=19)
    rows = distribution_rows(frame, table)
    assert len(rows) == len(frame) - 2
    assert rows["median"].is_monotonic_decreasing
    row = table.set_index("model").loc["resnet_1"]
    (label,) = rows.loc[rows["name"] == "resnet_1", "label"].unique()
    assert label == (
        f"resnet_1 (n = 16, BC {row['bimodality_coefficient']:.2f}, dip p {row['dip_p']:.2f})"
    )
    drawn = distribution_chart(frame, table)
    heaps = int((table["bimodality_coefficient"] > 5 / 9).sum())
    assert f"{heaps} of 9 models exceed" in words(drawn)
    assert label in words(drawn)
    assert len(marks(drawn, "symbol")) == 9
    families = distribution_rows(surveyed(18), by="family")
    assert set(families["name"]) == set(surveyed(9)["family"])
    assert "over 9 families" in words(distribution_chart(surveyed(18), by="family"))


def test_a_density_stands_over_every_strip_of_enough_sites():
    frame = surveyed(9)
    few = frame[(frame["model"] != "vgg_1") | (frame["site"] < 3)]
    rows = distribution_rows(few)
    heaps = density_rows(rows)
    assert set(heaps["name"]) == set(rows["name"]) - {"vgg_1"}
    for name, group in heaps.groupby("name"):
        assert group["height"].max() == 1.0, name
        assert group["height"].to_numpy() == pytest.approx(
            group["density"] / group["density"].max()
        )
    # Two heaps of the made-up residual network: its additions, and the rest.
    resnet = heaps[heaps["name"] == "resnet_1"].set_index("affinity")["height"]
    assert resnet[0.85] < 0.2 < resnet[0.93]
    drawn = distribution_chart(few)
    assert len(marks(drawn, "area")) == 8
    assert len(marks(drawn, "rect")) == len(few)
    spec = str(specification(drawn))
    low = math.floor(10 * heaps.loc[heaps["height"] > 0.002, "affinity"].min()) / 10
    assert spec.count("'field': 'affinity'") == spec.count(
        f"'field': 'affinity', 'scale': {{'domain': [{low}, 1], 'nice': False}}"
    )


def test_a_narrow_heap_is_as_high_wherever_it_falls_among_the_places():
    peaks = []
    for centre in np.linspace(0.5, 0.51, 9):
        group = density_rows(pd.DataFrame({"name": "one", "affinity": np.full(5, centre)}))
        assert np.trapezoid(group["density"], group["affinity"]) == pytest.approx(1.0, rel=0.01)
        peaks.append(group["density"].max())
    # That of a Gaussian kernel of the least bandwidth.
    assert peaks == pytest.approx([1 / (BANDWIDTHS[0] * (2 * np.pi) ** 0.5)] * 9, rel=0.05)


def many(models: int, family: object = "one") -> pd.DataFrame:
    """Return signatures of so many models with six sites each, the last one the most linear."""
    names = np.repeat([f"m{number:04}" for number in range(models)], 6)
    affinity = np.repeat(np.linspace(0.1, 0.9, models), 6) + np.tile(
        np.linspace(0, 0.05, 6), models
    )
    named = {"run_id": names, "model": names, "family": family, "checkpoint": "bundled"}
    return pd.DataFrame({**named, "affinity": affinity})


def test_more_models_than_can_be_read_are_drawn_by_family():
    frame = many(101).assign(family=lambda rows: "f" + rows["model"].str[-1])
    drawn = distribution_chart(frame, shapes(frame, draws=1))
    assert len(marks(drawn, "symbol")) == 10
    assert "The 101 models are drawn by family." in words(drawn)
    assert len(marks(distribution_chart(frame[frame["model"] != "m0000"]), "symbol")) == 100


@pytest.mark.parametrize("family", [None, [f"f{number // 6}" for number in range(1000 * 6)]])
def test_where_families_do_not_help_the_most_linear_are_drawn(family: object) -> None:
    drawn = distribution_chart(many(1000, family))
    assert len(marks(drawn, "symbol")) == 100
    assert "100 of 1,000 shown" in words(drawn)
    shown = words(drawn)
    assert [f"m{number:04} (n" in shown for number in (999, 900, 899)] == [True, True, False]
    assert "over 1,000 models" in shown


def test_distributions_of_one_site_and_of_none_are_drawn():
    one = distribution_chart(surveyed(1).head(1))
    assert "alexnet_1: median affinity" in words(one)
    assert not marks(one, "area")
    silent = surveyed(1).assign(affinity=np.nan)
    assert "No site has a score" in words(distribution_chart(silent))


def test_names_of_strips_are_text_and_no_expression():
    evil = 'a\'; datum.b \\ "c" <d>'
    assert evil in words(distribution_chart(surveyed(1).assign(model=evil)))


def twins() -> pd.DataFrame:
    residual = surveyed(9).query("family == 'ResNet'").assign(architecture="resnet14")
    plain = residual.assign(
        architecture="plain14", model="plain14", family="plain", run_id="plain", repeat=1,
        affinity=0.6,
    )  # fmt: skip
    return pd.concat([residual, plain], ignore_index=True)


def test_sites_after_the_shortcut_stand_apart():
    frame = twins()
    rows = residual_rows(frame)
    counts = rows["kind"].value_counts()
    after = int(post_shortcut(frame).sum())
    assert counts.to_dict() == {
        "after the shortcut": after,
        "other site of a residual network": 16 - after,
        "plain twin": 16,
    }
    assert list(rows["model"].unique()) == ["resnet_1", "plain14"]
    shown = words(residual_chart(frame))
    assert "in 1 of 1 trained network" in shown
    assert "no test: 1 pair" in shown
    assert len(marks(residual_chart(frame), "symbol")) == 32


def test_hollow_marks_keep_their_shape():
    flagged = twins().assign(flags=[("few_images",)] * len(twins()))
    outlines = {True: [], False: []}
    for mark in marks(residual_chart(flagged), "symbol"):
        commands = "".join(filter(str.isalpha, mark.get("d")))
        outlines[mark.get("fill") == "white"].append(commands)
    assert sorted(outlines[True]) == sorted(outlines[False])
    assert len(set(outlines[True])) == 3


def test_gates_are_no_sites_of_the_contrast():
    frame = twins()
    gate = frame["site"].eq(3) & frame["family"].eq("ResNet")
    rows = residual_rows(frame.assign(role=frame["role"].mask(gate, "gate")))
    assert len(rows) == 31
    assert "resnet_1 (n = 15)" in set(rows["label"])


def test_without_residual_networks_it_says_so():
    drawn = residual_chart(surveyed(3))
    assert residual_rows(surveyed(3)).empty
    assert not marks(drawn, "symbol")
    assert "No trained network" in words(drawn)


@pytest.fixture(scope="module")
def fitted():
    frame = surveyed(45)
    runs = runs_of(frame)
    return regressions(frame, runs, permutations=49), frame, runs


def test_lines_go_through_the_points_they_were_fitted_to(fitted):
    rows = regression_rows(*fitted)
    assert len(rows)
    for _, panel in rows.groupby("panel"):
        fit = linregress(panel["value"], panel["top1"])
        assert panel["fitted"].to_numpy() == pytest.approx(
            fit.intercept + fit.slope * panel["value"].to_numpy()
        )
        assert panel["r2"].iloc[0] == pytest.approx(fit.rvalue**2)
        assert len(panel) == panel["n"].iloc[0]


def test_titles_hold_what_picking_is_worth(fitted):
    table, frame, runs = fitted
    rows = regression_rows(table, frame, runs)
    drawn = regression_chart(table, frame, runs)
    shown = words(drawn)
    row = rows.drop_duplicates("panel").iloc[0]
    assert f"R2 {row['r2']:.2f}, left out {row['r2_left_out']:.2f}, n = {row['n']}" in shown
    assert "p picked =" in shown
    ours = rows.drop_duplicates("panel").query("kind == 'signature'")
    honest = int((ours["p_corrected"] < 0.05).sum())
    assert f"{honest} of {len(ours)} groups" in shown
    assert len(marks(drawn, "symbol")) == len(rows)
    gates = regression_rows(table, frame, runs, kinds=("gates",))
    assert set(gates["group"]) == {"NAS-based"}


@pytest.mark.parametrize("count", [3, 0])
def test_groups_too_small_to_fit_are_said_to_be(count: int):
    frame = surveyed(3)
    runs = runs_of(frame).head(count)
    none = regressions(frame, runs, permutations=9)
    assert regression_rows(none, frame, runs).empty
    with pytest.raises(NothingToDraw, match="enough models"):
        regression_chart(none, frame, runs)


def test_cells_of_correlations_say_mean_deviation_and_doubt():
    table = correlations(measured(18))
    rows = correlation_rows(table)
    assert set(rows["metric"]) == {"CKA", "norm", "sparsity change", "entropy change", "R2"}
    one = rows[(rows["name"] == "VGG") & (rows["metric"] == "R2")].iloc[0]
    star = "*" if one["p_corrected"] < 0.05 else ""
    assert one["cell"] == f"{one['pearson']:.2f} ± {one['std']:.2f}{star}"
    assert one["label"] == "VGG (2 architectures)"
    drawn = correlation_chart(table)
    assert len(marks(drawn, "rect")) == 10 * 5
    assert "all (18 architectures)" in words(drawn)
    assert "none can be tested" in words(correlation_chart(table.assign(p_corrected=np.nan)))
    models = correlation_rows(table, "model")
    assert len(models) == 18 * 5
    assert "alexnet_1 (7 sites)" in set(models["label"])


def test_means_are_said_to_be_over_architectures_and_of_which_weights():
    assert "random weights left out" in note(correlation_chart(correlations(measured(18))))
    asked = note(correlation_chart(correlations(measured(18), untrained=True)))
    assert "over architectures" in asked
    assert "left out" not in asked
    single = note(correlation_chart(correlations(measured(2)), "model"))
    assert "architectures" not in single


def test_means_on_several_datasets_say_which():
    photos = measured(2)
    noise = photos.assign(run_id=photos["run_id"] + "n", dataset="noise")
    rows = correlation_rows(correlations(pd.concat([photos, noise], ignore_index=True)), "all")
    assert set(rows["label"]) == {
        "all on photos (2 architectures)",
        "all on noise (2 architectures)",
    }


def test_points_are_of_the_models_that_were_fitted():
    frame = surveyed(24)
    runs = runs_of(frame)
    silent = runs.head(1).assign(run_id="silent", measured_top1=0.1)
    both = pd.concat([runs, silent], ignore_index=True)
    rows = regression_rows(regressions(frame, both, permutations=9), frame, both)
    assert len(rows)
    for _, panel in rows.groupby("panel"):
        assert len(panel) == panel["n"].iloc[0]


def test_a_blank_correlation_is_a_dash():
    table = correlations(measured(2).assign(cka=0.5))
    rows = correlation_rows(table, "model")
    assert set(rows.loc[rows["metric"] == "CKA", "cell"]) == {"-"}
    blank = table.assign(pearson=np.nan)
    assert "No correlation can be computed" in words(correlation_chart(blank))


def test_datasets_are_marks_at_their_distance():
    photos = surveyed(4)
    noise = photos.assign(
        dataset="noise", run_id=photos["run_id"] + "n", affinity=photos["affinity"] * 0.8
    )
    table = dataset_deviations(pd.concat([photos, noise], ignore_index=True), "photos")
    for measure in ("dtw", "euclidean"):
        rows = dataset_rows(table, measure)
        assert list(rows["distance"]) == sorted(table[measure], reverse=True)
        assert f"noise: {table[measure].mean():.2f} ±" in rows["label"][0]
        drawn = dataset_chart(table, measure)
        assert f"noise is {table[measure].mean():.2f} away from photos (4 architectures)" in words(
            drawn
        )
        assert len(marks(drawn, "symbol")) == 4
    nothing = dataset_deviations(photos)
    assert "No model was measured on two datasets" in words(dataset_chart(nothing))


def test_robustness_is_a_bar_a_metric():
    base = measured(1)
    rng = np.random.default_rng(3)
    frames = []
    for place in range(3):
        moved = base.assign(checkpoint=f"weights {place}", run_id=f"run {place}")
        for metric in METRICS:
            moved[metric] = moved[metric] + rng.normal(1 + place, 0.1)
        frames.append(moved)
    table = robustness(pd.concat(frames, ignore_index=True))
    rows = robustness_rows(table)
    assert set(rows["panel"]) == {"alexnet_1 on photos (3 checkpoints)"}
    row = table.set_index("metric").loc["norm"]
    cell = rows.set_index("metric")["cell"]["norm"]
    assert cell == f"{row['mean']:.2f} ± {row['std']:.2f}"
    drawn = robustness_chart(table)
    assert len(marks(drawn, "rect")) == 6
    # The affinity was not moved, the others were.
    assert "(0.00 of its mean)" in words(drawn)
    with pytest.raises(NothingToDraw, match="several checkpoints"):
        robustness_chart(robustness(base))


def compared() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "table": ["table2", "table2", "table3", "fig4"],
            "name": ["a", "b", "norm", "ViTs"],
            "quantity": ["cka", "norm", "norm", "min"],
            "paper": [0.5, -0.5, 448.56, 0.97],
            "ours": [0.4, 0.1, 400.0, np.nan],
            "ours_std": [np.nan, 0.2, 10.0, np.nan],
        }
    )


def test_ours_stands_against_the_papers():
    rows = paper_rows(compared())
    assert len(rows) == 3
    assert rows["ours_low"].tolist() == pytest.approx([0.4, -0.1, 390.0])
    drawn = paper_chart(compared())
    shown = words(drawn)
    assert "by 0.35 in the median; 1 of 2 have its sign" in shown
    assert "1 printed number without ours" in shown
    assert "Table 3: mean over checkpoints (n = 1)" in shown
    assert len(marks(drawn, "symbol")) == 3
    assert len(marks(drawn, "line")) == 2
    with pytest.raises(NothingToDraw, match="the paper prints"):
        paper_chart(compared().assign(ours=np.nan))


def test_a_family_is_what_its_trained_networks_are() -> None:
    runs = [
        signature("a", [0.8, 0.9], architecture="n"),
        signature("b", [0.1] * 9, architecture="n", checkpoint="init:0"),
    ]
    rows = distribution_rows(signatures(*runs), by="family")
    assert rows["affinity"].tolist() == [0.8, 0.9]
    assert len(distribution_rows(runs[1], by="family")) == 9
    assert len(distribution_rows(signatures(*runs))) == 11
