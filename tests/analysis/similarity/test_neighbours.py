"""Neighbours, the families they suggest, and which model is like none of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from analysis.similarity.distances import distance_matrix
from analysis.similarity.family_predictions import family_predictions, predictions_finding
from analysis.similarity.neighbours import neighbours, neighbours_finding
from analysis.similarity.novelty import novelty
from survey.errors import SettingsError, UnknownName
from tests.analysis.similarity.made_curves import frame, matrix, placed

#: Three families, one model of ``a`` among the ``b``, and the only ``c``.
PLACES = {"a1": 0.10, "a2": 0.12, "a3": 0.48, "b1": 0.5, "b2": 0.53, "b3": 0.51, "c1": 0.9}


def test_neighbours_are_those_of_scikit_learn() -> None:
    made = matrix(0, 12)
    table = neighbours(made, number=4)
    searched = NearestNeighbors(n_neighbors=4, metric="precomputed").fit(made.values)
    distances, places = searched.kneighbors()
    assert table["distance"].to_numpy().reshape(12, 4) == pytest.approx(distances)
    models = made.runs["model"].to_numpy()[places]
    assert (table["other_model"].to_numpy().reshape(12, 4) == models).all()
    assert table["rank"].tolist() == [1, 2, 3, 4] * 12


def test_neighbours_of_one_model() -> None:
    made = placed(PLACES)
    for name in ("a3", "run-a3"):
        table = neighbours(made, name, 2)
        assert table["other_model"].tolist() == ["b1", "b3"]
        assert table["distance"].tolist() == pytest.approx([0.02, 0.03])
    assert len(neighbours(made, "a3", 100)) == 6
    assert len(neighbours(placed({"a": 0.5}))) == 0
    with pytest.raises(UnknownName):
        neighbours(made, "z")
    with pytest.raises(SettingsError, match="0 neighbours"):
        neighbours(made, number=0)


def test_the_finding_of_one_model_is_of_what_is_known() -> None:
    def finding(*values: dict[str, Any]) -> str:
        columns = {
            name: {model: each.get(name) for model, each in zip("xy", values, strict=True)}
            for name in a
        }
        return neighbours_finding(neighbours(placed({"x": 0.1, "y": 0.2}, **columns), "x"))

    a: dict[str, Any] = {"source": "one", "architecture": "a", "family": "F"}
    b = {**a, "architecture": "b", "family": "G"}
    assert finding(a, a).endswith("another run of its architecture")
    assert finding(a, b).endswith(", not of its family")
    assert finding(a, b | {"family": "F"}).endswith(", of its family")
    assert finding(a, b | {"family": None}).endswith("the family of y is not known")
    assert finding(a | {"family": None}, b).endswith("the family of x is not known")
    # Equal names of two sources are two architectures; one of unknown family is one all the same.
    assert finding(a, a | {"source": "other"}).endswith(", of its family")
    nameless = a | {"family": None}
    assert finding(nameless, nameless).endswith("another run of its architecture")


def test_the_finding_of_many_models_counts_what_tells_of_a_family() -> None:
    near = {"p": 0.1, "q": 0.11, "r": 0.5, "s": 0.51, "t": 0.9, "u": 0.92}
    nets = {"p": "n", "q": "n", "r": "n", "s": "m", "t": "k", "u": "j"}
    sources = dict.fromkeys(near, "one") | {"r": "two"}
    families = dict.fromkeys(near, "F") | {"u": None}
    made = placed(near, family=families, architecture=nets, source=sources)
    shown = neighbours_finding(neighbours(made, number=1))
    assert "in 2 of 2 models" in shown
    assert "of 2 models more it is another run" in shown
    assert "of 1 model more its family is not known" in shown


def test_equally_near_models_come_in_the_order_of_the_matrix() -> None:
    made = placed({"x": 0.5, "p": 0.25, "q": 0.75, "r": 0.25})
    assert neighbours(made, "x")["other_model"].tolist() == ["p", "q", "r"]


def test_families_are_predicted_and_what_cannot_be_says_why() -> None:
    made = placed(PLACES | {"n1": 0.2}, family={**{name: name[0] for name in PLACES}, "n1": None})
    table = family_predictions(made).set_index("model")
    assert table["predicted"].dropna().to_dict() == {
        "a1": "a",
        "a2": "a",
        "a3": "b",
        "b1": "b",
        "b2": "b",
        "b3": "b",
    }
    assert table["right"].dropna().to_dict() == {
        "a1": True,
        "a2": True,
        "a3": False,
        "b1": True,
        "b2": True,
        "b3": True,
    }
    assert table.loc["c1", "reason"] == "the only architecture of its family"
    assert table.loc["n1", "reason"] == "its family is not known"
    assert table.loc["a1", "nearest_model"] == "a2"
    assert (table.attrs["predictable"], table.attrs["right"]) == (6, 5)
    assert table.attrs["accuracy"] == pytest.approx(5 / 6)
    # Each has two relatives among the six other models whose family is known.
    assert table.attrs["chance"] == pytest.approx(2 / 6)


@pytest.mark.parametrize("number", [1, 3])
def test_predictions_are_those_of_scikit_learn(number: int) -> None:
    rng = np.random.default_rng(5)
    names = [f"m{place}" for place in range(16)]
    families = dict(zip(names, rng.permutation([*"xy"] * 8).tolist(), strict=True))
    made = placed({name: rng.random() for name in names}, family=families)
    table = family_predictions(made, number)
    for place, name in enumerate(names):
        rest = [other for other in range(16) if other != place]
        votes = KNeighborsClassifier(number, metric="precomputed")
        votes.fit(made.values[np.ix_(rest, rest)], [families[names[other]] for other in rest])
        assert table["predicted"][place] == votes.predict(made.values[[place]][:, rest])[0], name


def test_among_equal_votes_the_nearest_decides() -> None:
    made = placed({"a1": 0.5, "b1": 0.52, "a2": 0.55, "b2": 0.9})
    assert family_predictions(made, 2)["predicted"][0] == "b"
    assert family_predictions(made, 3)["predicted"][0] == "b"
    assert (
        family_predictions(placed({"a1": 0.5, "b1": 0.51, "a2": 0.55, "a3": 0.4}), 3)["predicted"][
            0
        ]
        == "a"
    )


def test_other_weights_of_an_architecture_do_not_vote() -> None:
    """Else a checkpoint's twin would always give its family away."""
    architectures = {name: name[:2] for name in ("a1", "a1x", "a2", "b1", "b2")}
    places = {"a1": 0.5, "a1x": 0.501, "a2": 0.9, "b1": 0.52, "b2": 0.53}
    table = family_predictions(placed(places, architecture=architectures)).set_index("model")
    assert table.loc["a1", "nearest_model"] == "b1"
    assert not table.loc["a1", "right"]
    alone = placed({"a1": 0.5, "a1x": 0.501, "b1": 0.52, "b2": 0.6}, architecture=architectures)
    reasons = family_predictions(alone)["reason"].tolist()
    assert reasons[:2] == ["the only architecture of its family"] * 2
    assert pd.isna(reasons[2:]).all()


#: Three checkpoints of an architecture of ``b`` are nearer to ``a1`` than its two relatives.
CROWD = {"a1": 0.5, "b1": 0.51, "b1x": 0.512, "b1y": 0.514, "a2": 0.52, "a3": 0.53, "b2": 0.9}


def test_an_architecture_votes_once_however_many_checkpoints_it_has() -> None:
    crowd = placed(CROWD, architecture={name: name[:2] for name in CROWD})
    table = family_predictions(crowd, 3).set_index("model")
    assert table.loc["a1", "predicted"] == "a"
    assert table.loc["a1", "nearest_model"] == "b1"
    few = placed({name: place for name, place in CROWD.items() if len(name) == 2})
    assert family_predictions(few, 3)["predicted"][0] == "a"


def test_an_architecture_is_counted_once_however_many_checkpoints_it_has() -> None:
    architectures = {name: name[:2] for name in CROWD}
    table = family_predictions(placed(CROWD, architecture=architectures))
    assert table.loc[table["right"], "model"].tolist() == ["a3"]
    assert table.attrs["accuracy"] == pytest.approx(1 / 5)
    assert (table.attrs["predictable"], table.attrs["architectures"]) == (7, 5)
    # Of four other architectures, two are of family a for each of a, and one of b for each of b.
    assert table.attrs["chance"] == pytest.approx((3 * 2 / 4 + 2 * 1 / 4) / 5)


def test_random_weights_do_not_vote_and_are_not_counted() -> None:
    places = {"a1": 0.5, "b0": 0.51, "a2": 0.55, "b1": 0.8, "b2": 0.85, "b3": 0.83}
    made = placed(places, checkpoint=dict.fromkeys(places, "bundled") | {"b0": "init:0"})
    table = family_predictions(made).set_index("model")
    assert table.loc["a1", ["predicted", "nearest_model"]].tolist() == ["a", "a2"]
    assert table.loc["b0", "predicted"] == "a"
    assert pd.isna(table.loc["b0", "right"])
    assert table.loc["b0", "reason"] == "random weights are not counted"
    assert (table.attrs["predictable"], table.attrs["accuracy"]) == (5, 1)
    # Each of a has one relative of four, each of b two.
    assert table.attrs["chance"] == pytest.approx((2 * 1 / 4 + 3 * 2 / 4) / 5)
    both = family_predictions(made, untrained=True).set_index("model")
    assert both.loc["a1", "nearest_model"] == "b0"
    assert both.attrs["predictable"] == 6


def test_a_family_of_random_weights_suggests_nothing() -> None:
    places = {"a1": 0.1, "a2": 0.2, "b1": 0.3}
    made = placed(places, checkpoint={"a1": "bundled", "a2": "init:0", "b1": "bundled"})
    reasons = family_predictions(made).set_index("model")["reason"]
    assert "trained architecture" in reasons["a1"]
    assert reasons["b1"] == "the only architecture of its family"


def test_novelty_is_measured_by_trained_networks() -> None:
    places = {"a1": 0.1, "a2": 0.14, "b1": 0.5, "b2": 0.54, "a0": 0.9, "b0": 0.51}
    weights = {name: "init:1" if name[1] == "0" else "bundled" for name in places}
    made = placed(places, checkpoint=weights)
    table = novelty(made)
    assert (table.attrs["relatives"], table.attrs["scale"]) == (4, pytest.approx(0.04))
    rows = table.set_index("model")
    assert rows.loc["b1", "nearest_model"] == "b2"
    assert rows.loc["a0", "novelty"] == pytest.approx(0.36 / 0.04)
    every = novelty(made, untrained=True)
    assert every.attrs["relatives"] == 6
    assert every.set_index("model").loc["b1", "nearest_model"] == "b0"


def test_nothing_can_be_predicted_of_one_model() -> None:
    table = family_predictions(placed({"a": 0.5}))
    assert table["reason"].tolist() == ["the only architecture of its family"]
    assert table["right"].isna().all()
    assert np.isnan(table.attrs["accuracy"])
    assert np.isnan(table.attrs["chance"])


def test_one_family_alone_is_no_success() -> None:
    single = family_predictions(placed({"a1": 0.5, "a2": 0.6, "a3": 0.9}))
    assert single.attrs["accuracy"] == single.attrs["chance"] == 1
    assert "%" not in predictions_finding(single)
    assert "%" in predictions_finding(family_predictions(placed(PLACES)))


def test_what_is_like_no_family_is_newest() -> None:
    table = novelty(placed(PLACES))
    assert table["model"][0] == "c1"
    assert table["novelty"].is_monotonic_decreasing
    # Nearest relatives: 0.02, 0.02, 0.36, 0.01, 0.02, 0.01.
    assert table.attrs["scale"] == pytest.approx(0.02)
    assert table.attrs["relatives"] == 6
    assert table["novelty"][0] == pytest.approx((0.9 - 0.53) / 0.02)
    assert (table["nearest_model"][0], table["nearest_family"][0]) == ("b2", "b")


@pytest.mark.parametrize("seed", range(5))
def test_a_signature_of_another_kind_is_found_among_noise(seed: int) -> None:
    rng = np.random.default_rng(seed)
    depth = np.linspace(0, 1, 24)
    shapes = {"r": 0.5 + 0.4 * depth, "f": 0.9 - 0.5 * depth, "v": 0.6 + abs(depth - 0.5)}
    scores = {
        f"{name}{number}": np.interp(np.linspace(0, 1, size), depth, shape)
        + rng.normal(0, 0.02, size)
        for name, shape in shapes.items()
        for number, size in enumerate(rng.integers(15, 25, 4))
    }
    scores["odd"] = 0.6 + 0.3 * np.sin(20 * depth)
    table = novelty(distance_matrix(frame(scores), "relative"))
    assert table["model"][0] == "odd"
    assert table["novelty"][0] > 2 * table["novelty"][1]


@pytest.mark.parametrize("ask", [neighbours, family_predictions, novelty])
def test_signatures_in_the_place_of_distances_are_refused(ask: Callable[[Any], Any]) -> None:
    with pytest.raises(SettingsError, match="a DistanceMatrix is wanted") as refused:
        ask(pd.DataFrame())
    assert refused.value.hint == "pass distance_matrix(signatures)"


def test_novelty_knows_no_unit() -> None:
    rng = np.random.default_rng(0)
    places = {f"{'ab'[number % 2]}{number}": rng.random() for number in range(9)}
    whole, half = (
        novelty(placed({name: scale * place for name, place in places.items()}))
        for scale in (1.0, 0.5)
    )
    assert whole["model"].tolist() == half["model"].tolist()
    assert whole["novelty"].tolist() == pytest.approx(half["novelty"].tolist())


def test_two_of_an_unknown_family_do_not_hide_each_other() -> None:
    places = {"a1": 0.1, "a2": 0.12, "b1": 0.2, "b2": 0.22, "n1": 0.8, "n2": 0.81}
    families = {name: None if name[0] == "n" else name[0] for name in places}
    table = novelty(placed(places, family=families))
    assert table["model"][:2].tolist() == ["n2", "n1"]
    assert table["novelty"][1] > 20


def test_the_scale_is_how_near_relatives_are() -> None:
    """Not how near models are: each of these is nearest to one of the other family."""
    table = novelty(placed({"a1": 0.1, "b1": 0.11, "a2": 0.5, "b2": 0.51}))
    assert table.attrs["scale"] == pytest.approx(0.4)
    assert table["novelty"].tolist() == pytest.approx([0.025] * 4)


def test_without_relatives_the_scale_is_that_of_all() -> None:
    table = novelty(placed({"a": 0.1, "b": 0.2, "c": 0.6}))
    assert table.attrs["relatives"] == 0
    assert table["novelty"].tolist() == pytest.approx([4.0, 1.0, 1.0])
    alone = novelty(placed({"a": 0.1}))
    assert alone["novelty"].isna().all()
    assert alone["reason"].tolist() == ["no other architecture of a known family"]
    same = novelty(placed({"a1": 0.1, "a2": 0.1, "b": 0.4}))
    assert same["novelty"].isna().all()
    assert same["reason"].str.contains("equal signatures").all()
