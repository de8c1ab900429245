"""Clusters: scipy's tree and scikit-learn's scores, edge cases, stability, and barycentres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.cluster.hierarchy import cophenet, fcluster, is_valid_linkage, leaves_list
from scipy.cluster.hierarchy import linkage as scipy_linkage
from scipy.spatial.distance import squareform
from scipy.special import comb

from analysis.similarity.agreement import agreement
from analysis.similarity.clusters import cluster, clusters, cut_tree, silhouettes
from analysis.similarity.distances import distance_matrix
from analysis.similarity.stability import RunBatches, drawn_together, jaccards, with_stability
from survey.errors import SettingsError
from tests.analysis.similarity.made_curves import frame, matrix, placed

NAN = float("nan")
GROUPS = {"a1": 0.1, "b1": 0.5, "a2": 0.12, "c1": 0.9, "b2": 0.53, "a3": 0.11, "c2": 0.94}


def partition(members: Sequence[Any] | pd.Series) -> set[frozenset[int]]:
    """Return clusters as sets of places, whatever they are called."""
    given = np.asarray(members)
    return {frozenset(np.flatnonzero(given == name).tolist()) for name in np.unique(given)}


@pytest.mark.parametrize("linkage", ["average", "complete", "single"])
@pytest.mark.parametrize("seed", range(3))
def test_the_tree_is_that_of_scipy(linkage: Any, seed: int) -> None:
    made = matrix(seed, 14)
    theirs = scipy_linkage(squareform(made.values), linkage)
    clustering = cluster(made, linkage)
    assert is_valid_linkage(clustering.linkage)
    assert clustering.linkage[:, 2] == pytest.approx(theirs[:, 2])
    assert cophenet(clustering.linkage) == pytest.approx(cophenet(theirs))
    for number in (1, 2, 5, 14):
        table = cluster(made, linkage, number).table
        assert partition(table["cluster"]) == partition(fcluster(theirs, number, "maxclust"))


def test_leaves_are_a_permutation_in_which_neighbours_are_near() -> None:
    clustering = cluster(matrix(1, 12))
    leaf = clustering.table["leaf"].to_numpy()
    assert sorted(leaf) == list(range(12))
    assert (np.argsort(leaf) == leaves_list(clustering.linkage)).all()

    def length(order: NDArray[Any]) -> float:
        return float(clustering.matrix.values[order[:-1], order[1:]].sum())

    plain = leaves_list(scipy_linkage(squareform(clustering.matrix.values), "average"))
    assert length(np.argsort(leaf)) <= length(plain)
    # Clusters are numbered as the leaves come, so each is one stretch of the dendrogram.
    for number in range(2, 12):
        table = cluster(clustering.matrix, number=number).table
        assert table.sort_values("leaf")["cluster"].is_monotonic_increasing


def test_the_silhouette_finds_groups_that_are_there() -> None:
    clustering = cluster(placed(GROUPS))
    assert f"({clustering.table['silhouette'].mean():.2f}; 2 to 6 tried)" in clustering.cut
    assert partition(clustering.table["cluster"]) == partition([name[0] for name in GROUPS])
    (family, _) = clustering.agreement.to_dict("records")
    assert (family["n"], family["clusters"], family["labels"]) == (7, 3, 3)
    assert (family["adjusted_rand"], family["adjusted_mutual_information"]) == (1.0, 1.0)


@pytest.mark.parametrize("seed", range(4))
def test_no_other_cut_has_a_higher_silhouette(seed: int) -> None:
    made = matrix(seed, 15)
    scores = {
        number: cluster(made, number=number).table["silhouette"].mean() for number in range(2, 13)
    }
    assert cluster(made).number == max(scores, key=scores.__getitem__)


def plain_silhouettes(values: NDArray[Any], members: NDArray[Any]) -> list[float]:
    """Rousseeuw's definition."""
    result = []
    for place, label in enumerate(members):
        means = {k: values[place, members == k].mean() for k in np.unique(members) if k != label}
        others = (members == label) & (np.arange(len(members)) != place)
        a, b = values[place, others].mean() if others.any() else NAN, min(means.values())
        result.append((b - a) / max(a, b) if others.any() else 0.0)
    return result


def test_silhouettes_follow_their_definition() -> None:
    clustering = cluster(matrix(2, 11), number=4)
    members = clustering.table["cluster"].to_numpy()
    expected = plain_silhouettes(clustering.matrix.values, members)
    assert clustering.table["silhouette"].tolist() == pytest.approx(expected)
    for alike in (np.zeros(11, int), np.arange(11)):
        assert np.isnan(silhouettes(clustering.matrix.values, alike)).all()


def plain_rand(x: NDArray[Any], y: NDArray[Any]) -> float:
    """Hubert and Arabie's formula, from the pairs."""
    both = pd.crosstab(x, y).to_numpy()
    pairs, a, b = (comb(part, 2).sum() for part in (both, both.sum(0), both.sum(1)))
    expected = a * b / comb(len(x), 2)
    return float((pairs - expected) / ((a + b) / 2 - expected))


def test_agreement_follows_its_definition_and_leaves_the_unnamed_out() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"cluster": rng.integers(1, 4, 40), "family": rng.choice([*"xyz"], 40)})
    table = table.assign(source="made", architecture=[f"a{each}" for each in range(40)])
    table.loc[table.index % 5 == 0, "family"] = None
    (row,) = agreement(table).to_dict("records")
    known = table.dropna()
    assert (row["n"], row["labels"]) == (32, 3)
    expected = plain_rand(known["cluster"].to_numpy(), known["family"].to_numpy())
    assert row["adjusted_rand"] == pytest.approx(expected)
    assert abs(row["adjusted_mutual_information"]) < 0.3
    # Checkpoints of one architecture make no family.
    lonely = agreement(table.assign(architecture=table["family"]))
    assert (lonely["n"][0], np.isnan(lonely["adjusted_rand"][0])) == (0, True)


@pytest.mark.parametrize("clusters", [[1, 1, 1], [1, 2, 2]])
def test_one_family_is_nothing_to_agree_with(clusters: list[int]) -> None:
    """Not 1 and 0, which the index gives by definition."""
    named = {"source": "made", "architecture": [*"abc"], "family": "x"}
    (row,) = agreement(pd.DataFrame({"cluster": clusters}).assign(**named)).to_dict("records")
    assert (row["n"], row["labels"]) == (3, 1)
    assert np.isnan([row["adjusted_rand"], row["adjusted_mutual_information"]]).all()


def test_ties_are_cut_to_the_number_and_said() -> None:
    """Four models on a square's corners, as it were: every merge has the same height."""
    made = placed({"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4})
    made.values[:] = 0.5 * (1 - np.eye(4))
    for number in (1, 2, 3, 4):
        assert cluster(made, number=number).number == number
    assert "arbitrary" in cluster(made, number=2).cut
    assert cluster(made).cut.startswith("not cut")


def test_a_cut_keeps_what_was_merged_first() -> None:
    tree = np.array([[0, 1, 0.1, 2], [2, 3, 0.1, 2], [4, 5, 0.3, 4]])
    assert cut_tree(tree, 1).tolist() == [0, 0, 0, 0]
    assert partition(cut_tree(tree, 2)) == partition([0, 0, 1, 1])
    assert partition(cut_tree(tree, 3)) == partition([0, 0, 1, 2])
    assert partition(cut_tree(tree, 4)) == partition([0, 1, 2, 3])


def test_identical_models_are_one_cluster() -> None:
    clustering = cluster(placed({"a": 0.5, "b": 0.5, "c": 0.5, "d": 0.5}))
    assert clustering.number == 1
    assert clustering.table["silhouette"].isna().all()
    assert (clustering.linkage[:, 2] == 0).all()


def test_identical_models_are_not_torn_apart_by_the_silhouette() -> None:
    clustering = cluster(placed({"a": 0.1, "b": 0.1, "c": 0.1, "d": 0.7, "e": 0.7}))
    assert partition(clustering.table["cluster"]) == partition([0, 0, 0, 1, 1])


def test_two_models_are_one_cluster_unless_asked() -> None:
    made = placed({"a": 0.1, "b": 0.5})
    assert cluster(made).number == 1
    assert "three models" in cluster(made).cut
    assert cluster(made, number=2).table["cluster"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("places", "linkage", "number", "words"),
    [
        ({"a": 0.1}, "average", None, "at least 2"),
        ({"a": 0.1, "b": 0.2}, "average", 3, "3 clusters of 2 models"),
        ({"a": 0.1, "b": 0.2}, "average", 0, "0 clusters of 2 models"),
        ({"a": 0.1, "b": 0.2}, "ward", None, "needs Euclidean distances"),
        ({"a": 0.1, "b": 0.2}, "centroid", None, "needs Euclidean distances"),
        ({"a": 0.1, "b": 0.2}, "middle", None, "one of average, complete, single"),
    ],
)
def test_what_cannot_be_is_refused(
    places: Mapping[str, float], linkage: Any, number: int | None, words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        cluster(placed(places), linkage, number)


def test_the_table_says_how_it_was_made() -> None:
    signatures = frame({name: [place, place] for name, place in GROUPS.items()})
    table = clusters(signatures, "length", "complete", 3, 1)
    assert list(table.columns) == [
        *("run_id", "model", "source", "family", "family_group", "dataset"),
        *("cluster", "silhouette", "leaf", "stability"),
    ]
    assert table.attrs == {
        "selection": "all models",
        "normalisation": "length",
        "band": 1,
        "linkage": "complete",
        "cut": "cut into 3, as asked",
    }
    with pytest.raises(SettingsError, match="none of 2 runs"):
        clusters(frame({"a": [NAN], "b": [NAN]}))


def layers_of(scores: Mapping[str, Sequence[Sequence[float]]]) -> pd.DataFrame:
    """Return batch scores by model, batch and site."""
    return pd.DataFrame(
        [
            {"run_id": f"run-{model}", "batch": batch, "site": site, "affinity": value}
            for model, batches in scores.items()
            for batch, values in enumerate(batches)
            for site, value in enumerate(values)
        ]
    )


def measured(scores: Mapping[str, Sequence[Sequence[float]]]) -> Any:
    """Return the signatures of batch scores: their means over batches."""
    with np.errstate(all="ignore"):
        means = {model: pd.DataFrame(values).mean().tolist() for model, values in scores.items()}
    return distance_matrix(frame(means))


def noisy(spread: float, batches: int = 6) -> dict[str, list[list[float]]]:
    rng = np.random.default_rng(0)
    return {
        model: (place + rng.normal(0, spread, (batches, 3))).tolist()
        for model, place in {"a1": 0.2, "a2": 0.25, "a3": 0.22, "b1": 0.6, "b2": 0.7}.items()
    }


def test_groups_far_apart_are_stable_and_noise_is_not() -> None:
    calm, wild = noisy(0.01), noisy(1.0)
    still = with_stability(cluster(measured(calm), number=2), layers_of(calm), draws=40)
    assert still.table["stability"].tolist() == [1.0] * 5
    moved = with_stability(cluster(measured(wild), number=2), layers_of(wild), draws=40)
    assert moved.table["stability"].min() < 0.8
    by_cluster = moved.table.groupby("cluster")["stability"].nunique()
    assert (by_cluster == 1).all()


def test_draws_follow_their_seed() -> None:
    wild = noisy(1.0)
    clustering = cluster(measured(wild), number=3)
    one, same, other = (
        with_stability(clustering, layers_of(wild), draws=20, seed=seed).table["stability"].tolist()
        for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other


def test_runs_with_one_batch_are_named() -> None:
    scores = noisy(0.5)
    scores["b1"] = scores["b1"][:1]
    table = with_stability(cluster(measured(scores), number=2), layers_of(scores), 10).table
    assert table.attrs["one_batch"] == ["b1"]
    assert table["stability"].notna().all()
    single = {model: batches[:1] for model, batches in scores.items()}
    alone = with_stability(cluster(measured(single), number=2), layers_of(single), 10).table
    assert alone["stability"].isna().all()
    assert len(alone.attrs["one_batch"]) == 5


def test_sites_that_some_batches_lack_do_no_harm() -> None:
    scores = noisy(0.1)
    scores["a1"][0][1] = scores["a1"][1][1] = NAN
    for batch in scores["b2"]:
        batch[2] = NAN
    for values in scores["a2"][:5]:
        values[:] = [NAN] * 3
    clustering = with_stability(cluster(measured(scores), number=2), layers_of(scores), draws=30)
    assert clustering.table["stability"].between(0, 1).all()
    assert clustering.table.attrs["one_batch"] == ["a2"]


@pytest.mark.parametrize("batches", [2, 3, 8])
def test_draws_vary_as_means_over_new_batches_do(batches: int) -> None:
    """Of B batches with variance s^2 at a site, means over new ones have variance s^2 / B."""
    rng = np.random.default_rng(batches)
    affinity = rng.random((batches, 5))
    (curve,) = measured({"a": affinity}).curves
    run = RunBatches(curve, tuple(range(batches)), affinity)
    drawn = np.array([drawn_together([run], rng)[0].values for _ in range(8000)])
    assert drawn.mean(axis=0) == pytest.approx(affinity.mean(axis=0), abs=0.02)
    expected = affinity.var(axis=0, ddof=1) / batches
    assert drawn.var(axis=0) == pytest.approx(expected, rel=0.1)


def test_runs_on_the_same_batches_are_drawn_together() -> None:
    """Images that raise all scores alike move no model away from another."""
    rng = np.random.default_rng(1)
    effect = rng.normal(0, 0.1, (6, 1))
    one, other = 0.5 + effect + np.zeros((6, 4)), 0.6 + effect + np.zeros((6, 4))
    curves = measured({"a": one, "b": other}).curves
    runs = [
        RunBatches(curve, tuple(range(6)), values)
        for curve, values in zip(curves, (one, other), strict=True)
    ]
    levels = []
    for _ in range(50):
        first, second = drawn_together(runs, rng)
        assert second.values - first.values == pytest.approx(0.1)
        levels.append(first.values[0])
    assert np.std(levels) > 0.02


def test_what_a_bootstrap_cannot_use_is_refused() -> None:
    scores = noisy(0.1)
    clustering = cluster(measured(scores), number=2)
    with pytest.raises(SettingsError, match="0 draws"):
        with_stability(clustering, layers_of(scores), draws=0)
    del scores["a3"]
    with pytest.raises(SettingsError, match="batches of a3 are not in the frame"):
        with_stability(clustering, layers_of(scores))


def test_jaccards_are_those_of_sets() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        one, other = (np.unique(rng.integers(0, 4, 9), return_inverse=True)[1] for _ in range(2))
        expected = [
            max(len(x & y) / len(x | y) for y in partition(other))
            for x in (frozenset(np.flatnonzero(one == k).tolist()) for k in range(one.max() + 1))
        ]
        assert jaccards(one, other).tolist() == pytest.approx(expected)
