"""k-means under dynamic time warping: groups, barycentres, and too few or equal models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from analysis.similarity.distances import distance_matrix
from analysis.similarity.kmeans import kmeans
from analysis.statistics.dtw import dtw
from survey.errors import SettingsError
from tests.analysis.similarity.made_curves import frame, matrix, placed

#: Most of it goes into compiling, tslearn's averaging above all.
pytestmark = [pytest.mark.slow(seconds=20), pytest.mark.long]


def waves(models: int = 4) -> dict[str, NDArray[np.float64]]:
    """Return rising and falling curves of unequal lengths."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(6, 14, 2 * models)
    return {
        f"{'rf'[number % 2]}{number}": np.linspace(*((0.2, 0.9), (0.9, 0.2))[number % 2], size)
        + rng.normal(0, 0.02, size)
        for number, size in enumerate(sizes)
    }


@pytest.mark.parametrize("normalisation", ["raw", "relative"])
def test_kmeans_finds_what_rises_and_what_falls(normalisation: Any) -> None:
    made = distance_matrix(frame(waves()), normalisation)
    fitted = kmeans(made, 2)
    rising = {name for name in waves() if name[0] == "r"}
    parts = {frozenset(names) for _, names in fitted.table.groupby("cluster")["model"]}
    assert parts == {frozenset(rising), frozenset(waves().keys() - rising)}
    assert fitted.agreement["adjusted_rand"][0] == 1.0
    for number, rows in fitted.curves.groupby("cluster"):
        middle = rows["affinity"].to_numpy()
        ends = waves()[fitted.table.loc[fitted.table["cluster"] == number, "model"].iloc[0]]
        assert (middle[-1] > middle[0]) == (ends[-1] > ends[0])
        assert (rows["models"] == 4).all()
        assert rows["relative_depth"].iloc[[0, -1]].tolist() == [0.0, 1.0]


def test_distances_to_barycentres_are_warping_distances() -> None:
    rng = np.random.default_rng(2)
    made = distance_matrix(frame({f"m{number}": rng.random(12) for number in range(9)}), "raw", 0)
    fitted = kmeans(made, 3, seed=4)
    for curve, row in zip(made.curves, fitted.table.itertuples(), strict=True):
        centre = fitted.curves.loc[fitted.curves["cluster"] == row.cluster, "affinity"]
        assert row.distance == pytest.approx(dtw(curve.values, centre, 0))
    assert fitted.inertia == pytest.approx((fitted.table["distance"] ** 2).mean())
    again = kmeans(made, 3, seed=4)
    pd.testing.assert_frame_equal(again.table, fitted.table)


@pytest.mark.filterwarnings("ignore:h5py not installed:UserWarning")
def test_one_cluster_has_a_mean_that_averaging_does_not_improve() -> None:
    from tslearn.barycenters import dtw_barycenter_averaging

    made = distance_matrix(frame({name: values[:6] for name, values in waves().items()}), "raw")
    fitted = kmeans(made, 1)
    curves = [curve.values for curve in made.curves]
    theirs = dtw_barycenter_averaging(curves, init_barycenter=fitted.curves["affinity"].to_numpy())
    ours = np.mean([dtw(curve, fitted.curves["affinity"]) ** 2 for curve in curves])
    assert ours <= np.mean([dtw(curve, theirs[:, 0]) ** 2 for curve in curves]) * 1.001


def test_kmeans_of_few_and_equal_models() -> None:
    assert kmeans(placed({"a": 0.1}), 1).table["cluster"].tolist() == [1]
    same = kmeans(placed({"a": 0.5, "b": 0.5, "c": 0.5}), 1)
    assert same.inertia == pytest.approx(0.0)
    with pytest.raises(SettingsError, match="4 clusters of 3 models"):
        kmeans(placed({"a": 0.5, "b": 0.5, "c": 0.5}), 4)
    with pytest.raises(SettingsError, match="normalisation 'length'"):
        kmeans(matrix(0, 3, "length"), 1)


@pytest.mark.parametrize("seed", range(4))
def test_the_first_cluster_holds_most_models(seed: int) -> None:
    places = {"a1": 0.1, "a2": 0.12, "b1": 0.5, "b2": 0.51, "b3": 0.52, "b4": 0.53, "c1": 0.9}
    fitted = kmeans(placed(places), 3, seed)
    assert fitted.table["cluster"].tolist() == [2, 2, 1, 1, 1, 1, 3]
    assert fitted.curves["models"].tolist() == [4, 2, 1]


def test_more_clusters_than_different_curves_leave_some_out() -> None:
    fitted = kmeans(placed({"a": 0.5, "b": 0.5, "c": 0.9}), 3)
    used = sorted(fitted.table["cluster"].unique())
    assert used == list(range(1, len(used) + 1))
    assert sorted(fitted.curves["cluster"].unique()) == used
