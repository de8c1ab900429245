"""Hierarchical clusters of models whose signatures are alike.

Owns the tree, where it is cut and what order its leaves have. Distances are those of
``analysis.similarity.distances``, agreement with families that of
``analysis.similarity.agreement``; how stable clusters are is asked of
``analysis.similarity.stability``.

Notes
-----
Dynamic time warping breaks the triangle inequality, so linkages whose update formula supposes
Euclidean distances (Ward's, centroid, median) are refused: their heights would be no variances.
Average, complete and single linkage need dissimilarities only. The paper does not say which it
used; average is the default here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np
import pandas as pd

from analysis.array_types import Floats, Integers
from analysis.choices import NORMALISATION, Linkage, Normalisation
from analysis.data.validation import require_choice, require_kind
from analysis.similarity.agreement import agreement, agreement_words
from analysis.similarity.distances import DistanceMatrix, distance_matrix, distance_words
from survey.errors import SettingsError
from survey.text import counted

#: The most clusters that the silhouette chooses among.
MOST_CLUSTERS = 12

#: Models up to which leaves are put in the optimal order: its time grows with their fourth power,
#: and the command draws no single leaves of a larger dendrogram.
MOST_ORDERED = 500

_EUCLIDEAN = ("ward", "centroid", "median")


@dataclass(frozen=True, slots=True, eq=False)
class Clustering:
    """Models in clusters, and the tree that these were cut from."""

    #: One row a model in the order of the matrix: ``run_id``, ``model``, ``source``, ``family``,
    #: ``family_group``, ``dataset``, ``cluster`` (1, 2, ... in the order of the leaves),
    #: ``silhouette`` in [-1, 1] (NaN for one cluster, or as many as models), ``leaf`` (place in
    #: the dendrogram, from 0) and ``stability`` in [0, 1] (NaN unless computed).
    table: pd.DataFrame
    #: The tree, shape (m - 1, 4), as ``scipy.cluster.hierarchy`` has it.
    linkage: Floats
    #: What was clustered.
    matrix: DistanceMatrix
    #: Where the tree was cut and why, as a clause.
    cut: str
    #: Agreement with families and groups of them; see ``analysis.similarity.agreement``.
    agreement: pd.DataFrame
    #: Which linkage made the tree.
    method: Linkage = "average"

    @property
    def number(self) -> int:
        """How many clusters there are."""
        return int(self.table["cluster"].nunique())


def clusters(
    signatures: pd.DataFrame,
    normalisation: Normalisation = NORMALISATION,
    linkage: Linkage = "average",
    number: int | None = None,
    band: int | None = None,
) -> pd.DataFrame:
    """Cluster the models of a frame; see ``cluster`` and ``analysis.similarity.distances``.

    Parameters
    ----------
    signatures : pandas.DataFrame
        One row a run and site, of ``analysis.signatures``.
    normalisation : {"raw", "length", "relative"}
        What is done about unequal lengths.
    linkage : {"average", "complete", "single"}
        How the distance of two clusters follows from those of their members.
    number : int, optional
        How many clusters; by default those of the highest mean silhouette.
    band : int, optional
        Radius of a Sakoe-Chiba band.

    Returns
    -------
    pandas.DataFrame
        One row a model: ``run_id``, ``model``, ``source``, ``family``, ``family_group``,
        ``dataset``, ``cluster``, ``silhouette``, ``leaf``, ``stability`` (NaN here), with
        ``attrs`` that describe how they were made.

    Raises
    ------
    SettingsError
        If there are fewer than two models with a signature, or an argument is out of range.
    """
    return cluster(distance_matrix(signatures, normalisation, band), linkage, number).table


def cluster(
    matrix: DistanceMatrix, linkage: Linkage = "average", number: int | None = None
) -> Clustering:
    """Cluster models hierarchically and cut the tree.

    Without a number, the tree is cut where the mean silhouette [1]_ is highest among 2 to
    min(12, m - 1) clusters, the fewer where equal; a cut between two merges of the same height
    would be arbitrary and is not tried. Leaves of up to 500 models are ordered so that neighbours
    are as near as the tree allows [2]_.

    Parameters
    ----------
    matrix : DistanceMatrix
        Distances between at least two models.
    linkage : {"average", "complete", "single"}
        How the distance of two clusters follows from those of their members.
    number : int, optional
        How many clusters, 1 to m.

    Returns
    -------
    Clustering
        The clusters, the tree, and how far they agree with families.

    Raises
    ------
    SettingsError
        If it is given something else, there are fewer than two models, or the linkage or number
        cannot be used.

    References
    ----------
    .. [1] P. J. Rousseeuw, "Silhouettes", Journal of Computational and Applied Mathematics 20
       (1987), 53-65, doi:10.1016/0377-0427(87)90125-7.
    .. [2] Z. Bar-Joseph, D. K. Gifford, T. S. Jaakkola, "Fast optimal leaf ordering for
       hierarchical clustering", Bioinformatics 17 (2001), S22-S29,
       doi:10.1093/bioinformatics/17.suppl_1.S22.
    """
    from scipy.cluster.hierarchy import leaves_list

    require_kind(matrix, DistanceMatrix, "distance_matrix(signatures)")
    _require(matrix, linkage, number)
    tree = _tree(matrix.values, linkage, ordered=len(matrix) <= MOST_ORDERED)
    leaves = leaves_list(tree).astype(np.int64)
    members, cut = _cut(tree, matrix.values, number)
    leaf = np.empty(len(matrix), np.int64)
    leaf[leaves] = np.arange(len(matrix))
    numbered = _numbered(members, leaves)
    columns = ["run_id", "model", "source", "family", "family_group", "dataset"]
    table = matrix.runs[columns].assign(
        cluster=numbered,
        silhouette=silhouettes(matrix.values, numbered),
        leaf=leaf,
        stability=np.nan,
    )
    table.attrs = {**matrix.runs.attrs, "linkage": linkage, "cut": cut}
    agreeing = agreement(matrix.runs.assign(cluster=numbered))
    return Clustering(table, tree, matrix, cut, agreeing, linkage)


def clusters_finding(clustering: Clustering) -> str:
    """Return how many clusters there are, and how far they agree with families, as a sentence."""
    models, count = counted(len(clustering.table), "model"), counted(clustering.number, "cluster")
    agreeing = agreement_words(clustering.agreement)
    return f"{count} of {models} agree {agreeing}" if agreeing else f"{models} in {count}"


def clusters_method(clustering: Clustering) -> str:
    """Return how clusters were made, as a clause: distances, linkage and cut."""
    matrix = clustering.matrix
    return f"{distance_words(matrix)}, {clustering.method} linkage, {clustering.cut}"


def silhouettes(values: Floats, members: Integers) -> Floats:
    """Return each model's silhouette (b - a) / max(a, b), by scikit-learn.

    Parameters
    ----------
    values : array of float, shape (m, m)
        Distances.
    members : array of int, shape (m,)
        The cluster of each model.

    Returns
    -------
    array of float, shape (m,)
        In [-1, 1], 0 for a model that is alone; all NaN for one cluster, or as many as models.
    """
    from sklearn.metrics import silhouette_samples

    if not 2 <= len(np.unique(members)) < len(values):
        return np.full(len(values), np.nan)
    result: Floats = silhouette_samples(values, members, metric="precomputed")
    return result


def cut_tree(tree: Floats, number: int) -> Integers:
    """Return the cluster of each leaf after all but ``number - 1`` merges, counting from 0.

    Parameters
    ----------
    tree : array of float, shape (m - 1, 4)
        A tree of ``scipy.cluster.hierarchy``, its heights rising.
    number : int
        How many clusters, 1 to m.

    Returns
    -------
    array of int, shape (m,)
        Exactly so many clusters, also where heights are equal.
    """
    leaves = len(tree) + 1
    roots = np.arange(leaves + len(tree))
    for step, (left, right) in enumerate(tree[: leaves - number, :2].astype(int)):
        roots[roots == roots[left]] = leaves + step
        roots[roots == roots[right]] = leaves + step
    result: Integers = np.unique(roots[:leaves], return_inverse=True)[1]
    return result


def partition(values: Floats, linkage: Linkage, number: int) -> Integers:
    """Return clusters alone, without leaves or silhouettes; see ``cluster``.

    Parameters
    ----------
    values : array of float, shape (m, m)
        Distances.
    linkage : {"average", "complete", "single"}
        How the distance of two clusters follows from those of their members.
    number : int
        How many clusters, 1 to m.

    Returns
    -------
    array of int, shape (m,)
        The cluster of each model, counting from 0.
    """
    return cut_tree(_tree(values, linkage, ordered=False), number)


def _require(matrix: DistanceMatrix, linkage: str, number: int | None) -> None:
    if linkage in _EUCLIDEAN:
        raise SettingsError(
            f"the linkage is {linkage!r}, which needs Euclidean distances; those of dynamic time"
            " warping are not",
            hint=f"use one of {', '.join(get_args(Linkage))}",
        )
    require_choice("linkage", linkage, Linkage)
    if len(matrix) < 2:
        raise SettingsError(
            f"{len(matrix)} model with a signature, clusters need at least 2",
            hint="select more models, or survey more of them",
        )
    if number is not None and not 1 <= number <= len(matrix):
        whole = len(matrix)
        raise SettingsError(f"{number} clusters of {whole} models, must be 1 to {whole}")


def _tree(values: Floats, linkage: Linkage, ordered: bool) -> Floats:
    from scipy.cluster.hierarchy import linkage as merge
    from scipy.cluster.hierarchy import optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    condensed = squareform(values, checks=False)
    tree: Floats = merge(condensed, method=linkage)
    return optimal_leaf_ordering(tree, condensed) if ordered else tree


def _cut(tree: Floats, values: Floats, number: int | None) -> tuple[Integers, str]:
    models, heights = len(values), tree[:, 2]
    if number is not None:
        arbitrary = 1 < number < models and heights[-number] == heights[1 - number]
        among = ", arbitrary among merges of equal height" if arbitrary else ""
        return cut_tree(tree, number), f"cut into {number}, as asked{among}"
    if models == 2:
        return cut_tree(tree, 1), "not cut, as a silhouette needs three models"
    most = min(MOST_CLUSTERS, models - 1)
    tried = [k for k in range(2, most + 1) if heights[-k] < heights[1 - k]]
    if not tried:
        return cut_tree(tree, 1), "not cut, as no cut is less arbitrary than another"
    cuts = [cut_tree(tree, k) for k in tried]
    scores = [float(silhouettes(values, members).mean()) for members in cuts]
    best = f"{max(scores):.2f}; 2 to {most} tried"
    return cuts[int(np.argmax(scores))], f"cut where the silhouette is best ({best})"


def _numbered(members: Integers, leaves: Integers) -> Integers:
    """Return the clusters numbered from 1 in the order of the leaves."""
    _, first = np.unique(members[leaves], return_index=True)
    result: Integers = (np.argsort(np.argsort(first)) + 1)[members]
    return result
