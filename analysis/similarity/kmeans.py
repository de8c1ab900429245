"""K-means of signatures under dynamic time warping, each cluster with its mean curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.array_types import Floats, Integers
from analysis.data.validation import require_kind
from analysis.similarity.agreement import agreement, agreement_words
from analysis.similarity.distances import DistanceMatrix
from analysis.statistics import dtw
from analysis.text import number, range_finding
from survey.errors import SettingsError
from survey.text import counted

#: Random initialisations of k-means; the one of least inertia counts.
INITIALISATIONS = 10

#: Rounds of k-means at most, and steps of the averaging within one.
ROUNDS, AVERAGED = 50, 10

#: A mean squared distance between curves that is no change.
ENOUGH = 1e-6


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
    """Cluster models by k-means under dynamic time warping.

    Means are those of DTW barycentre averaging [1]_, as long as the longest curve. Of
    ``INITIALISATIONS`` random ones, drawn far apart [2]_, the result of least inertia counts.

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
    .. [2] D. Arthur, S. Vassilvitskii, "k-means++: the advantages of careful seeding", ACM-SIAM
       Symposium on Discrete Algorithms (2007), 1027-1035.
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
    table.attrs = {**matrix.runs.attrs, "seed": seed}
    inertia = float(np.mean(distances**2))
    agreeing = agreement(matrix.runs.assign(cluster=members))
    return Barycentres(table, _points(members, centres), inertia, agreeing, matrix)


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
    """Return the cluster of each model, the barycentres, and the distance of each model to its."""
    prepared = [curve.normalised(matrix.normalisation) for curve in matrix.curves]
    rng, longest = np.random.default_rng(seed), max(curve.size for curve in prepared)
    found = []
    for _ in range(INITIALISATIONS):
        first = [prepared[place] for place in _spread_out(matrix.values**2, number, rng)]
        found.append(_descended(prepared, [_stretched(c, longest) for c in first], matrix.band))
    centres, squares = min(found, key=lambda each: float(each[1].min(axis=1).sum()))
    # Largest first, so that numbers mean the same for any seed that finds the same clusters.
    members = squares.argmin(axis=1)
    order = np.argsort(-np.bincount(members, minlength=number), kind="stable")
    places = np.argsort(order)
    return places[members] + 1, [centres[k] for k in order], np.sqrt(squares.min(axis=1))


def _spread_out(squares: Floats, number: int, rng: np.random.Generator) -> list[int]:
    """Return some models far apart, one after the other.

    Some are drawn by their squared distance to those before; the one that most others are near to
    is taken.
    """
    trials = 2 + int(np.log(number))
    chosen = [int(rng.integers(len(squares)))]
    while len(chosen) < number:
        nearest = squares[chosen].min(axis=0)
        # Nothing is left that differs from all of them.
        weights = nearest / nearest.sum() if nearest.any() else None
        drawn = rng.choice(len(squares), trials, p=weights)
        left = np.minimum(nearest, squares[drawn]).sum(axis=1)
        chosen.append(int(drawn[left.argmin()]))
    return chosen


def _stretched(curve: Floats, size: int) -> Floats:
    """Return a curve with another number of points, linear between its own."""
    return np.interp(np.linspace(0, 1, size), np.linspace(0, 1, curve.size), curve)


def _descended(
    curves: Sequence[Floats], centres: Sequence[Floats], band: int | None
) -> tuple[Sequence[Floats], Floats]:
    """Return barycentres, and the squared distance of each curve to each of them."""
    squares = _squares(curves, centres, band)
    for _ in range(ROUNDS):
        members, before = squares.argmin(axis=1), squares.min(axis=1).mean()
        centres = [
            _barycentre(
                [curves[place] for place in np.flatnonzero(members == k).tolist()], centre, band
            )
            for k, centre in enumerate(centres)
        ]
        squares = _squares(curves, centres, band)
        if before - squares.min(axis=1).mean() < ENOUGH:
            break
    return centres, squares


def _barycentre(curves: Sequence[Floats], centre: Floats, band: int | None) -> Floats:
    """Return a centre moved towards the mean of its curves; one without curves stays."""
    for _ in range(AVERAGED if curves else 0):
        before, centre = centre, dtw.aligned_mean(curves, centre, band)
        if np.square(centre - before).mean() < ENOUGH:
            break
    return centre


def _squares(curves: Sequence[Floats], centres: Sequence[Floats], band: int | None) -> Floats:
    """Return the squared distance of each curve to each centre."""
    first, second = np.indices((len(curves), len(centres))).reshape(2, -1)
    pairs = np.stack((first, second + len(curves)), axis=1)
    squares = dtw.squared_sums([*curves, *centres], pairs, band)
    return squares.reshape(len(curves), len(centres))


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
