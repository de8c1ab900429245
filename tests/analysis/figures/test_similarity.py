"""Dendrogram, matrix, neighbours and novelty: the drawn numbers are those of the distances."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.cluster.hierarchy import cophenet, dendrogram, fcluster
from scipy.spatial.distance import squareform

from analysis.figures import (
    dendrogram_chart,
    dendrogram_rows,
    matrix_chart,
    matrix_rows,
    neighbour_chart,
    neighbour_rows,
    novelty_chart,
    novelty_rows,
    prediction_chart,
    prediction_rows,
    representatives,
)
from analysis.figures.dendrogram import leaves_of
from analysis.figures.marks.model_colours import ModelColours
from analysis.similarity.clusters import cluster
from analysis.similarity.distances import distance_matrix
from analysis.similarity.family_predictions import family_predictions
from analysis.similarity.neighbours import neighbours
from analysis.similarity.novelty import novelty
from survey.errors import NothingToDraw, SettingsError, UnknownName
from tests.analysis.figures.drawn import marks, words
from tests.analysis.figures.frames import surveyed

pytestmark = pytest.mark.slow(seconds=11)


@pytest.fixture(scope="module")
def matrix():
    return distance_matrix(surveyed(14), "relative", cache=False)


@pytest.fixture(scope="module")
def clustering(matrix):
    return cluster(matrix, number=4)


def test_leaves_have_the_colours_of_a_tag(clustering):
    runs = list(clustering.table["run_id"])
    tags = [{"lr": (0.1, 0.01)[place % 2]} if place else {} for place in range(len(runs))]
    models = pd.DataFrame({"run_id": runs, "tags": tags})
    colours = ModelColours.by(models, "tags.lr")
    leaves = leaves_of(clustering, colours=colours)
    given = dict(zip(runs, tags, strict=True))
    expected = [f"{given[run].get('lr', 'unknown')}" for run in leaves["run_id"]]
    assert list(leaves["colour"]) == expected
    merged = leaves_of(clustering, 6, colours)
    assert set(merged["colour"]) <= {"0.1", "0.01", "unknown"}
    shown = words(dendrogram_chart(clustering, colours=colours))
    assert all(each in shown for each in ("lr", "0.01", "unknown"))
    with pytest.raises(UnknownName):
        ModelColours.by(models, "tags.epoch")


def test_values_that_differ_late_have_colours_of_their_own(clustering):
    runs = list(clustering.table["run_id"])
    given = [{"n": (0.1, 1234567.5, 1234568.5)[place % 3]} for place in range(len(runs))]
    colours = ModelColours.by(pd.DataFrame({"run_id": runs, "tags": given}), "tags.n")
    expected = {"0.1", "1234567.5", "1234568.5"}
    assert set(leaves_of(clustering, colours=colours)["colour"]) == expected


def test_leaves_have_the_colours_of_lists(clustering):
    runs = list(clustering.table["run_id"])
    skipped = [(["head", "fc"], [], None)[place % 3] for place in range(len(runs))]
    models = pd.DataFrame({"run_id": runs, "skipped_names": skipped})
    colours = ModelColours.by(models, "skipped_names")
    assert set(leaves_of(clustering, colours=colours)["colour"]) == {
        "['head', 'fc']", "[]", "unknown",
    }  # fmt: skip
    assert "skipped_names" in words(dendrogram_chart(clustering, colours=colours))


@pytest.mark.parametrize("most", [None, 13, 6, 2])
def test_branches_are_where_scipy_draws_them(clustering, most):
    how = {} if most is None else {"truncate_mode": "lastp", "p": most}
    drawn = dendrogram(clustering.linkage, no_plot=True, **how)
    expected = {
        (round(height[1], 9), *sorted((round(x[0] / 10 - 0.5, 9), round(x[3] / 10 - 0.5, 9))))
        for height, x in zip(drawn["dcoord"], drawn["icoord"], strict=True)
    }
    rows = dendrogram_rows(clustering, most)
    assert len(rows) == 3 * ((most or 14) - 1)
    joins = rows.groupby("merge").nth(2)
    result = {
        (round(row.far, 9), round(row.low, 9), round(row.high, 9)) for row in joins.itertuples()
    }
    assert result == expected


def test_branches_below_the_cut_belong_to_clusters(clustering):
    rows = dendrogram_rows(clustering)
    joins = rows.groupby("merge").nth(2)
    assert (joins["cluster"] == 0).sum() == clustering.table["cluster"].nunique() - 1
    height = joins.loc[joins["cluster"] > 0, "far"].max()
    members = fcluster(clustering.linkage, height, "distance")
    # The same partition, whatever clusters are called.
    pairs = set(zip(members, clustering.table["cluster"], strict=True))
    assert len(pairs) == len(set(members)) == 4
    assert cophenet(clustering.linkage).max() == pytest.approx(rows["far"].max())


def test_the_tree_names_every_model_and_says_how_well_it_knows_families(clustering):
    drawn = dendrogram_chart(clustering)
    shown = words(drawn)
    for name in clustering.table["model"]:
        assert name in shown
    rand = clustering.agreement.set_index("label")["adjusted_rand"]["family"]
    assert "4 clusters of 14 models" in shown
    assert f"adjusted Rand index of {rand:.2f}" in shown
    assert "14 runs" in shown
    assert len(marks(drawn, "symbol")) == 14
    # Branches and the clusters' brackets.
    assert len(marks(drawn, "rule")) == 3 * 13 + 4


def test_leaves_of_a_tree_cut_short_say_what_they_stand_for(clustering):
    leaves = leaves_of(clustering, 6)
    assert leaves["models"].sum() == 14
    assert leaves["leaf"].tolist() != list(range(6))
    several = leaves[leaves["models"] > 1]
    assert (several["model"].str.split(" ").str[0].astype(int) == several["models"]).all()
    alone = leaves.loc[leaves["models"] == 1, ["model", "family"]]
    assert alone.merge(clustering.table).shape[0] == len(alone)
    drawn = dendrogram_chart(clustering, most=6)
    shown = words(drawn)
    assert "The last 5 merges of 13 are drawn" in shown
    assert "4 clusters of 14 models" in shown
    # Each cluster still has its bracket, as none is split.
    assert len(marks(drawn, "rule")) == 3 * 5 + 4
    # Leaves of several clusters have none.
    assert set(leaves_of(clustering, 3)["cluster"]) >= {0}
    assert "are drawn" not in words(dendrogram_chart(clustering, most=14))


@pytest.mark.parametrize(
    ("families", "label"),
    [("AAA", "3 models, all A"), ("AAB", "3 models, mostly A"), ("BAC", "3 models, 1 of them A")],
)
def test_a_leaf_of_several_is_named_by_its_commonest_family(families, label):
    sites = surveyed(4)
    near = sites["model"] != "resnet_1"
    letters = dict(zip(sites.loc[near, "model"].unique(), families, strict=True))
    sites["family"] = sites["model"].map(letters).fillna("Z")
    sites["affinity"] = sites["affinity"].where(near, 0.02)
    clustering = cluster(distance_matrix(sites, "relative", cache=False), number=2)
    assert set(leaves_of(clustering, 2)["model"]) == {label, "resnet_1"}


def test_leaves_are_in_the_matrix_order_whatever_the_tables(clustering):
    shuffled = clustering.table.sample(frac=1, random_state=0)
    from dataclasses import replace

    again = dendrogram_rows(replace(clustering, table=shuffled))
    assert again.equals(dendrogram_rows(clustering))


def test_cells_are_the_distances(matrix, clustering):
    cells = matrix_rows(matrix, clustering)
    assert len(cells) == 14**2
    wide = cells.pivot_table(index="run_id", columns="other_run_id", values="distance")
    order = matrix.runs["run_id"]
    assert np.allclose(wide.loc[order, order], matrix.values)
    leaves = clustering.table.set_index("run_id")["leaf"].sort_values()
    assert list(cells.drop_duplicates("run_id")["run_id"]) == list(leaves.index)
    by_family = matrix_rows(matrix).drop_duplicates("run_id")
    assert list(by_family["family"]) == sorted(by_family["family"])


def test_the_matrix_names_the_nearest_and_the_furthest(matrix):
    shown = words(matrix_chart(matrix))
    distances = squareform(matrix.values, checks=False)
    assert f"are nearest ({distances.min():.2f})" in shown
    assert f"furthest apart ({distances.max():.2f}; n = 14 models)" in shown
    assert len(marks(matrix_chart(matrix), "rect")) == 14**2


def test_representatives_are_medoids_of_the_largest_families():
    matrix = distance_matrix(surveyed(23), "raw", cache=False)
    chosen = representatives(matrix, 5)
    runs = matrix.runs.set_index("run_id")
    # Families with three models, before those with two.
    assert list(runs.loc[chosen, "family"]) == [
        "Alexnet", "DenseNet", "Inception", "ResNet", "VGG",
    ]  # fmt: skip
    members = np.flatnonzero(matrix.runs["family"] == "VGG")
    sums = matrix.values[np.ix_(members, members)].sum(axis=1)
    assert chosen[-1] == matrix.runs["run_id"].iloc[members[sums.argmin()]]
    drawn = matrix_chart(matrix, number_of_models=5)
    assert len(marks(drawn, "rect")) == 25
    # The caption is that of what is shown.
    assert "all models, one of each family; 5 runs" in words(drawn)
    assert set(matrix_rows(matrix, number_of_models=5)["other_run_id"]) == set(chosen)


def test_models_of_unknown_family_have_no_representative():
    frame = surveyed(23)
    frame.loc[frame["family"] == "VGG", "family"] = None
    matrix = distance_matrix(frame, "raw", cache=False)
    runs = matrix.runs.set_index("run_id")
    assert runs.loc[representatives(matrix, 30), "family"].notna().all()


def test_a_matrix_of_too_many_models_is_refused_at_once(matrix, monkeypatch):
    monkeypatch.setattr("analysis.figures.matrix.MOST", 13)
    with pytest.raises(SettingsError, match="14 models are too many") as refused:
        matrix_chart(matrix)
    assert "number_of_models" in str(refused.value.hint)
    assert len(marks(matrix_chart(matrix, number_of_models=9), "rect")) == 81


def test_two_models_and_models_of_no_family():
    two = surveyed(2).assign(family=None, family_group=None)
    matrix = distance_matrix(two, cache=False)
    assert "alexnet_1 and vgg_1 are" in words(matrix_chart(matrix))
    assert len(marks(dendrogram_chart(cluster(matrix)), "symbol")) == 2
    assert "unknown" in words(dendrogram_chart(cluster(matrix)))
    one = distance_matrix(surveyed(1), cache=False)
    assert "1 model, no distance" in words(matrix_chart(one))


def test_neighbours_are_bars_the_nearest_first(matrix):
    result = neighbours(matrix, "vgg_1", 3)
    rows = neighbour_rows(result)
    assert list(rows["distance"]) == sorted(rows["distance"])
    drawn = neighbour_chart(result)
    assert len(marks(drawn, "rect")) == 3
    first = rows.iloc[0]
    assert f"vgg_1 is nearest to {first['other_model']} ({first['distance']:.2f})" in words(drawn)
    every = neighbour_rows(neighbours(matrix, None, 1))
    kin = (every["family"] == every["other_family"]).sum()
    shown = words(neighbour_chart(neighbours(matrix, None, 1)))
    several = every.groupby("family")["model"].transform("size") > 1
    assert f"of the same family in {kin} of {several.sum()} models" in shown


def test_one_neighbour_each_is_a_row_a_model(matrix):
    nearest = neighbours(matrix, None, 1)
    drawn = neighbour_chart(nearest)
    assert len(marks(drawn, "rect")) == 14
    shown = words(drawn)
    for row in nearest.to_dict("records"):
        other = f" ({row['other_family']})" if row["other_family"] != row["family"] else ""
        assert f"  {row['other_model']}{other}" in shown
    # One axis for all, and not a panel each.
    assert shown.count("distance") == 1 + shown.count("DTW distance")


def test_one_model_has_no_neighbour_to_draw():
    alone = distance_matrix(surveyed(1), cache=False)
    with pytest.raises(NothingToDraw, match="no other model"):
        neighbour_chart(neighbours(alone))


def test_predictions_are_counted_in_cells():
    matrix = distance_matrix(surveyed(23), "raw", cache=False)
    table = family_predictions(matrix, 3)
    known = table[table["predicted"].notna()]
    cells = prediction_rows(table)
    assert cells["models"].sum() == len(known) == table.attrs["predictable"]
    assert cells.loc[cells["right"], "models"].sum() == table.attrs["right"]
    assert cells.groupby("family")["share"].sum().to_numpy() == pytest.approx(1.0)
    crossed = known.groupby(["family", "predicted"]).size()
    kept = cells[cells["models"] > 0].set_index(["family", "predicted"])["models"]
    assert kept.to_dict() == crossed.to_dict()
    drawn = prediction_chart(table)
    assert len(marks(drawn, "rect")) == len(cells) + cells["right"].sum()
    shown = words(drawn)
    right, number, chance = table.attrs["right"], len(known), table.attrs["chance"]
    assert f"{right} of {number} models" in shown
    assert f"({right / number:.0%}; a neighbour drawn at random: {chance:.0%})" in shown
    assert "3 nearest neighbours" in shown
    assert "23 runs" in shown


def test_families_that_cannot_be_predicted_are_named():
    sites = surveyed(11)
    sites["family"] = sites["family"].where(sites["model"] != "swin_1")
    table = family_predictions(distance_matrix(sites, cache=False))
    shown = words(prediction_chart(table))
    assert "ConvNeXt, DenseNet, EfficientNet, Inception, ResNet and ViT, of one" in shown
    assert "1 model of unknown family" in shown
    none = family_predictions(distance_matrix(surveyed(3), cache=False))
    with pytest.raises(NothingToDraw, match="two architectures"):
        prediction_chart(none)


def test_predictions_of_random_weights_are_told_and_not_counted():
    sites = surveyed(23)
    first = sites["model"] == sites["model"].iloc[0]
    sites["checkpoint"] = sites["checkpoint"].where(~first, "init:0")
    table = family_predictions(distance_matrix(sites, cache=False))
    (excluded,) = table[table["reason"] == "random weights are not counted"]["model"]
    assert excluded == sites["model"].iloc[0]
    assert prediction_rows(table)["models"].sum() == table["predicted"].notna().sum() - 1
    assert "Not counted: 1 model of random weights." in words(prediction_chart(table))


def test_unknown_families_are_no_kin(matrix):
    nearest = neighbours(matrix, "vgg_1", 2).assign(family=None)
    assert set(neighbour_rows(nearest)["kin"]) == {"unknown"}


def test_novelty_ranks_and_leaves_out_what_has_none(matrix):
    ranking = novelty(matrix)
    rows = novelty_rows(ranking)
    assert list(rows["novelty"]) == sorted(ranking["novelty"].dropna(), reverse=True)
    assert list(rows["place"]) == list(range(1, len(rows) + 1))
    drawn = novelty_chart(ranking)
    assert f"{rows['model'][0]} is the most unlike" in words(drawn)
    assert len(marks(drawn, "symbol")) == len(marks(drawn, "rule")) == len(rows)
    few = words(novelty_chart(ranking, most=3))
    assert f"(n = {len(rows)} models)" in few
    assert f"The 3 most unlike of {len(rows)}." in few
    assert list(novelty_rows(ranking, 3)["model"]) == list(rows["model"][:3])
    assert "left out" not in few
    blank = ranking.assign(novelty=[np.nan, *ranking["novelty"][1:]])
    assert "1 model without a score left out" in words(novelty_chart(blank))
    assert "No model has a novelty" in words(novelty_chart(ranking.assign(novelty=np.nan)))
