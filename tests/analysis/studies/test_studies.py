"""The studies of activations: closed forms, order, symmetry, and the paper's values."""

import math
import shutil

import numpy as np
import pandas as pd
import pytest
import torch

import analysis
from analysis.studies.catalogue import STUDIES
from analysis.studies.comparison import comparison_chart, comparison_scores
from analysis.studies.elementwise import ACTIVATIONS, PAPER_ACTIVATIONS, elementwise
from analysis.studies.figure_7 import FIGURE_7
from analysis.studies.mlps import mean_frequency, mlp_chart, mlp_scores, mlp_summary
from analysis.studies.polynomials import polynomial_scores, power_closed_form
from analysis.studies.ranges import range_chart, range_line_chart, range_scores, range_summary
from analysis.studies.reductions import reduction_scores
from analysis.studies.seeded_inputs import normal, normal_closed_form, score, seeded
from analysis.studies.shrinkage import shrinkage_scores
from docs.generate import studies_page
from docs.generate.studies_page import write_document
from survey import SettingsError, UnknownName
from tests.style.repository import ROOT

#: The closed forms for standard normal coordinates, each computed elsewhere.
CLOSED_FORMS = {
    "relu": 0.6211,
    "relu6": 0.6211,
    "leaky_relu": 0.6271,
    "gelu": 0.6133,
    "silu": 0.6738,
    "hardswish": 0.6949,
    "tanh": 0.8119,
    "sigmoid": 0.9108,
}


def test_the_closed_forms_are_the_known_ones():
    for name, expected in CLOSED_FORMS.items():
        assert normal_closed_form(elementwise(name)) == pytest.approx(expected, abs=6e-5)


def test_relu_on_shifted_inputs(subtests):
    for mean, expected in [(-2, 0.1642), (-1, 0.3728), (1, 0.8291), (2, 0.9480), (4, 0.9988)]:
        with subtests.test(mean=mean, expected=expected):
            assert normal_closed_form(torch.relu, mean) == pytest.approx(expected, abs=6e-5)
            scores = comparison_scores(["relu"], mean=float(mean), n=1000, d=50)
            # Far from the mean a few points decide: the rare positive ones.
            assert scores["affinity"][0] == pytest.approx(expected, abs=0.02)
            assert scores["closed_form"][0] == pytest.approx(expected, abs=6e-5)


def test_the_scores_meet_their_closed_forms():
    table = comparison_scores(n=600, d=40)
    assert set(table["activation"]) == set(PAPER_ACTIVATIONS)
    assert table["affinity"].is_monotonic_decreasing
    assert (table["affinity"] - table["closed_form"]).abs().max() < 0.02


def test_every_name_that_is_listed_is_elementwise():
    x = torch.tensor([[-1.5, 0.2], [0.7, 4.0]], dtype=torch.float64)
    for name in ACTIVATIONS:
        whole = elementwise(name)(x)
        assert torch.equal(whole[1, :1], elementwise(name)(x[1, :1])), name
        scored = comparison_scores([name], mean=1.0, n=64, d=8)
        assert 0 < scored["affinity"][0] <= 1


def test_a_symmetric_range_scores_odd_activations_alike():
    table = range_scores(["tanh", "hardtanh"], [-2.0, 2.0], [0.5], n=400, d=30)
    for _, rows in table[table["sample"] == "normal"].groupby("activation"):
        assert rows["affinity"].iloc[0] == pytest.approx(rows["affinity"].iloc[1], abs=0.03)
    (x,) = (normal(seeded(0), 200, 10, mean=1.0),)
    forwards, backwards = score(x, torch.tanh(x)), score(-x, torch.tanh(-x))
    assert forwards["affinity"] == pytest.approx(backwards["affinity"], abs=1e-9)


def test_relu_is_linear_right_of_zero_and_has_no_score_left_of_it():
    table = range_scores(["relu"], [-20.0, 0.0, 20.0], [1.0, 0.1], n=200, d=20)
    scores = table.set_index(["sample", "mean"])
    assert (scores.loc[("normal", 20.0), "affinity"] > 1 - 1e-6).all()
    dead = scores.loc[("normal", -20.0)]
    assert dead["affinity"].isna().all()
    assert dead["reason"].str.contains("the same for every image").all()
    # Around 0 a positively homogeneous function does not see the deviation.
    assert scores.loc[("normal", 0.0), "affinity"].to_numpy() == pytest.approx(0.6211, abs=0.06)
    assert set(table["sample"]) == {"baseline", "normal"}
    summary = range_summary(table).set_index("mean")
    assert summary["scores"].to_dict() == {-20.0: 0, 0.0: 2, 20.0: 2}
    assert summary.loc[0.0, "low"] <= summary.loc[0.0, "median"] <= summary.loc[0.0, "high"]


def test_the_score_of_an_exponential_tail_does_not_depend_on_where_it_is():
    table = range_scores(["sigmoid"], [-20.0, -15.0], [1.0, 0.01], n=300, d=30)
    tails = table[table["sample"] == "normal"].groupby("deviation")["affinity"]
    assert (tails.max() - tails.min()).max() < 0.03
    assert tails.mean()[0.01] > 0.9 > tails.mean()[1.0]


def test_the_first_power_is_linear_and_higher_ones_less_and_less():
    table = polynomial_scores(range(1, 6), n=400, d=40)
    rising = table[table["low"] == 0.0]["affinity"].to_numpy()
    assert rising[0] == pytest.approx(1.0, abs=1e-6)
    assert (np.diff(rising) < -0.02).all()
    around = table[table["low"] == -1.0].set_index("degree")["affinity"]
    assert around[1] == pytest.approx(1.0, abs=1e-6)
    assert around[[2, 4]].max() < 0.3 < around[5] < around[3]
    expected = table.dropna(subset="closed_form")
    assert (expected["affinity"] - expected["closed_form"]).abs().max() < 0.02
    # x^2 on [0, 1]: covariance 1/12, variances 1/12 and 4/45.
    assert power_closed_form(2, 0.0, 1.0) == pytest.approx(1 - math.sqrt(1 - math.sqrt(15) / 4))
    assert math.isnan(power_closed_form(2, -1.0, 1.0))


def test_the_closed_form_of_powers_does_not_depend_on_the_scale():
    expected = power_closed_form(40, -0.25, 1.0)
    for scale in (1e-300, 1e-9, 1e12, 1e300):
        scaled = power_closed_form(40, -0.25 * scale, scale)
        assert scaled == pytest.approx(expected, abs=1e-12)
    # On m - h to m + h a cube is nearly its tangent: its curvature takes 2 (h / m)^2 / 15 from r.
    for middle in (1e2, 1e4, 1e6):
        score = power_closed_form(3, middle - 0.5, middle + 0.5)
        assert (1 - score) ** 2 == pytest.approx(2 * (0.5 / middle) ** 2 / 15, rel=0.05)


@pytest.fixture(scope="module")
def reduced():
    return reduction_scores(channels=[20], side=2, n=1000)


def test_reductions_give_the_papers_values(reduced):
    plainest = reduced[reduced["construction"] == "independent positions"]
    assert len(plainest) == 3 * len(PAPER_ACTIVATIONS)
    assert set(plainest["reduction"]) == {"average", "flatten", "sum"}
    assert (plainest["affinity"] - plainest["paper"]).abs().max() < 0.02


def test_other_readings_do_not(reduced):
    keys = ["construction", "reduction", "activation"]
    # In one dimension transport maps any two nearly normal laws onto each other.
    single = reduction_scores(["relu"], [1], side=4, n=300).set_index(keys)["affinity"]
    assert single["independent positions", "average", "relu"] > 0.85
    scores = reduced.set_index(keys)["affinity"]
    # Averages of four positions have deviation 1/2: nearer to where the sigmoid is linear.
    assert scores["reduced first", "average", "sigmoid"] > 0.95
    assert scores["standardised first", "average", "sigmoid"] == pytest.approx(0.91, abs=0.02)
    # ReLU scales with its input, so that it does not see that.
    first = scores["reduced first", "average", "relu"]
    assert first == pytest.approx(scores["reduced first", "sum", "relu"], abs=1e-6)


@pytest.mark.slow(seconds=4)
def test_shrunk_scores_are_the_papers_and_plain_ones_rise_with_the_dimension():
    table = shrinkage_scores(dimensions=(30, 100), n=1000)
    many = shrinkage_scores(["relu"], (1100,), n=1000).set_index("shrinkage")
    assert many.loc["ledoit-wolf", "affinity"] == pytest.approx(0.62, abs=0.02)
    shrunk = table[table["shrinkage"] == "ledoit-wolf"]
    assert len(shrunk) == 2 * len(FIGURE_7)
    assert (shrunk["affinity"] - shrunk["paper"]).abs().max() < 0.02
    few = shrinkage_scores(["relu"], (20, 100, 300), n=100).set_index(["shrinkage", "d"])
    assert few.loc["none", "affinity"].is_monotonic_increasing
    assert few.loc[("none", 300), "affinity"] > few.loc[("ledoit-wolf", 300), "affinity"] + 0.1


def test_perceptrons_grow_less_linear_and_more_complex_with_their_weights():
    table = mlp_scores(["tanh"], (0.5, 6.0), seeds=2, side=16)
    summary = mlp_summary(table).set_index("scale")
    assert summary.loc[0.5, "affinity"] > summary.loc[6.0, "affinity"] + 0.1
    assert summary.loc[0.5, "complexity"] < summary.loc[6.0, "complexity"]
    layers = table[["first", "second", "third"]].to_numpy()
    assert table["affinity"].to_numpy() == pytest.approx(layers.mean(axis=1))


def test_the_mean_frequency_of_one_wave_is_its_own():
    half = (np.arange(32) + 0.5) / 32
    wave = np.cos(2 * np.pi * 3 * half)[:, None] + np.zeros(32)
    assert mean_frequency(wave) == pytest.approx(3.0, abs=1e-9)
    assert mean_frequency(5 - 7 * wave.T) == pytest.approx(3.0, abs=1e-9)
    assert math.isnan(mean_frequency(np.ones((8, 8))))


def test_a_seed_gives_the_same_table(subtests):
    for study in [
        lambda seed: comparison_scores(["relu"], n=60, d=5, seed=seed),
        lambda seed: range_scores(["gelu"], [0.0, 1.0], [1.0], n=60, d=5, seed=seed),
        lambda seed: polynomial_scores([2], n=60, d=5, seed=seed),
        lambda seed: reduction_scores(["silu"], [3], side=2, n=60, seed=seed),
        lambda seed: shrinkage_scores(["relu"], [5], n=60, seed=seed),
        lambda seed: mlp_scores(["tanh"], [1.0], seeds=1, side=8, seed=seed),
    ]:
        with subtests.test(study=study):
            pd.testing.assert_frame_equal(study(3), study(3))
            assert not study(3)["affinity"].equals(study(4)["affinity"])


def test_what_one_activation_sees_does_not_depend_on_the_others():
    alone = range_scores(["tanh"], [0.0, 1.0], [1.0], n=60, d=5)
    beside = range_scores(["relu", "tanh"], [0.0, 1.0], [1.0], n=60, d=5)
    beside = beside[beside["activation"] == "tanh"].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, beside)


def test_bad_parameters_are_refused(subtests):
    for call, message in [
        (lambda: comparison_scores(["relu"], n=1), "n is 1"),
        (lambda: comparison_scores(["relu"], d=0), "d is 0"),
        (lambda: comparison_scores([]), "activations is empty"),
        (lambda: comparison_scores(["relu"], deviation=0.0), "deviation is 0.0"),
        (lambda: comparison_scores(["relu"], mean=math.nan), "mean is nan"),
        (lambda: range_scores(["relu"], deviations=[-1.0]), "deviations holds -1.0"),
        (lambda: range_scores(["relu"], ridge="none"), "ridge is 'none'"),
        (lambda: polynomial_scores([0]), "degrees holds 0"),
        (lambda: polynomial_scores([2], [(1.0, 1.0)]), "must rise"),
        (lambda: reduction_scores(["relu"], [0]), "channels holds 0"),
        (lambda: shrinkage_scores(["relu"], []), "dimensions is empty"),
        (lambda: mlp_scores(["relu"], [math.inf]), "scales holds inf"),
        (lambda: comparison_scores(["relu"], seed=-1), "seed is -1"),
    ]:
        with subtests.test(call=call, message=message), pytest.raises(SettingsError, match=message):
            call()


def test_an_unknown_activation_is_refused_with_a_proposal():
    with pytest.raises(UnknownName) as caught:
        comparison_scores(["rlu"])
    assert "relu" in str(caught.value.hint)
    with pytest.raises(UnknownName):
        comparison_scores(["conv2d"])


def test_charts_hold_their_tables():
    ranges = range_scores(["relu", "tanh"], [-2.0, 2.0], [1.0], n=40, d=4)
    assert len(range_chart(ranges).to_dict()["concat"]) == 2
    assert range_line_chart(ranges).to_dict()["title"] == "relu"
    assert "closed_form" in str(comparison_chart(comparison_scores(["relu"], n=40, d=4)).to_dict())
    perceptrons = mlp_scores(["tanh"], [1.0], seeds=1, side=8)
    assert len(mlp_chart(perceptrons).to_dict()["hconcat"]) == 2


def test_the_package_exports_every_study():
    for one in STUDIES:
        assert callable(getattr(analysis, f"{one.noun}_scores"))
        assert callable(getattr(analysis, f"{one.noun}_chart"))
    for name in analysis.__all__:
        assert getattr(analysis, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = analysis.nothing


def test_the_document_holds_the_studies_that_were_run(tmp_path):
    write_document(tmp_path, ["comparison"])
    text = (tmp_path / "activations.md").read_text()
    assert "## Activations on one input (Figure 2B)" in text
    assert "figures/comparison.svg" in text
    assert "## Random perceptrons" not in text
    assert {p.name for p in (tmp_path / "figures").iterdir()} == {
        "comparison.csv",
        "comparison.svg",
    }


@pytest.mark.slow(seconds=4)
def test_the_documentation_is_that_of_its_tables(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "docs" / "figures", tmp_path / "figures")
    monkeypatch.setattr(studies_page, "save", lambda chart, path: chart.to_dict())
    write_document(tmp_path, [])
    written = (ROOT / "docs" / "activations.md").read_text(encoding="utf-8")
    assert (tmp_path / "activations.md").read_text(encoding="utf-8") == written
