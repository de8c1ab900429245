"""K-means of signatures under dynamic time warping, each cluster with its mean curve."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.array_types import Floats, Integers
from analysis.data.validation import require_kind
from analysis.similarity.agreement import agreement, agreement_words
from analysis.similarity.distances import DistanceMatrix
from analysis.text import number, range_finding
from survey.errors import SettingsError
from survey.text import counted

#: Random initialisations of k-means; the one of least inertia counts.
INITIALISATIONS = 5

#: Rounds of k-means, and of the averaging within one.
ROUNDS = 50


@dataclass(frozen=True, slots=True, eq=False)
class Barycentres:
    """Models in clusters, each with the curve they lie around."""

    #: One row a model: ``run_id``, ``model``, ``source``, ``family``, ``family_group``,
    #: ``dataset``, ``cluster`` (1 holds most models) and ``distance`` to its barycentre.
    table: pd.DataFrame
    #: One row a cluster and point: ``cluster``, ``models`` (in it), ``point`` (from 0),
    #: ``relative_depth`` in [0, 1] and ``affinity``.
    curves: pd.DataFrame
    #: Sum of the squared distances of models to their barycentres, over the number of models.
    inertia: float
    #: Agreement with families and groups of them; see ``analysis.similarity.agreement``.
    agreement: pd.DataFrame
    #: What was clustered.
    matrix: DistanceMatrix


def kmeans(matrix: DistanceMatrix, number: int, seed: int = 0) -> Barycentres:
    """Cluster models by k-means under dynamic time warping, with tslearn.

    Means are those of DTW barycentre averaging [1]_, as long as
    the longest curve.

    Parameters
    ----------
    matrix : DistanceMatrix
        Whose curves, normalisation (``raw`` or ``relative``) and band are used.
    number : int
        How many clusters, 1 to the number of models.
    seed : int
        Of the initialisations.

    Returns
    -------
    Barycentres
        The clusters and their mean curves.

    Raises
    ------
    SettingsError
        If it is given something else, the number is out of range, or the normalisation is
        ``length``: k-means minimises sums of squares along paths, and dividing these by lengths
        leaves no mean that minimises them.

    References
    ----------
    .. [1] F. Petitjean, A. Ketterlin, P. Gancarski, "A global averaging method for dynamic time
       warping", Pattern Recognition 44 (2011), 678-693, doi:10.1016/j.patcog.2010.09.013.
    """
    require_kind(matrix, DistanceMatrix, "distance_matrix(signatures)")
    if matrix.normalisation == "length":
        raise SettingsError(
            "k-means has no means for the normalisation 'length', must be raw or relative"
        )
    if not 1 <= number <= len(matrix):
        whole = len(matrix)
        raise SettingsError(f"{number} clusters of {whole} models, must be 1 to {whole}")
    members, centres, distances = _fitted(matrix, number, seed)
    columns = ["run_id", "model", "source", "family", "family_group", "dataset"]
    table = matrix.runs[columns].assign(cluster=members, distance=distances)
    table.attrs = {**matrix.attrs, "cut": f"cut into {number}, as asked", "seed": seed}
    inertia = float(np.mean(distances**2))
    return Barycentres(table, _points(members, centres), inertia, agreement(table), matrix)


def barycentres_finding(result: Barycentres) -> str:
    """Return how far apart the clusters' mean curves are, as a sentence."""
    models = counted(len(result.table), "model")
    medians = result.curves.groupby("cluster")["affinity"].median().sort_values()
    if len(medians) == 1:
        return f"{models} around one barycentre, its median affinity {number(medians.iloc[0])}"
    agreeing = agreement_words(result.agreement)
    named = medians.rename(index="cluster {}".format)
    clusters = f"{counted(len(medians), 'cluster')} of {models}"
    finding = range_finding("The median affinity of the barycentres goes", named, clusters)
    return finding + (f"; they agree {agreeing}" if agreeing else "")


def _fitted(
    matrix: DistanceMatrix, number: int, seed: int
) -> tuple[Integers, list[Floats], Floats]:
    with warnings.catch_warnings():
        # tslearn needs h5py only to save models.
        warnings.filterwarnings("ignore", "h5py not installed", UserWarning)
        from tslearn.clustering import TimeSeriesKMeans
        from tslearn.utils import to_time_series_dataset

    prepared = [curve.normalised(matrix.normalisation) for curve in matrix.curves]
    series = to_time_series_dataset(prepared)
    banded = {"global_constraint": "sakoe_chiba", "sakoe_chiba_radius": matrix.band}
    model = TimeSeriesKMeans(
        n_clusters=number,
        metric="dtw",
        metric_params=None if matrix.band is None else banded,
        n_init=INITIALISATIONS,
        max_iter=ROUNDS,
        max_iter_barycenter=ROUNDS,
        random_state=seed,
    )
    result = model.fit_predict(series)
    # Largest first, so that numbers mean the same for any seed that finds the same clusters.
    order = np.argsort(-np.bincount(result, minlength=number), kind="stable")
    places = np.argsort(order)
    distances = model.transform(series)[np.arange(len(result)), result]
    return places[result] + 1, [model.cluster_centers_[k, :, 0] for k in order], distances


def _points(members: Integers, centres: list[Floats]) -> pd.DataFrame:
    """Return the barycentres as rows; a cluster that holds no model has none."""
    frames = [
        pd.DataFrame(
            {
                "cluster": k,
                "models": int((members == k).sum()),
                "point": np.arange(centre.size),
                "relative_depth": np.arange(centre.size) / max(centre.size - 1, 1),
                "affinity": centre,
            }
        )
        for k, centre in enumerate(centres, 1)
        if (members == k).any()
    ]
    return pd.concat(frames, ignore_index=True)
