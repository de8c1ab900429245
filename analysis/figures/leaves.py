"""Leaves of a dendrogram: a model each, or what the lowest merges have made of many models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.figures.theme import UNKNOWN
from survey.words import counted

if TYPE_CHECKING:
    from analysis.clustering import Clustering


def leaves_of(clustering: Clustering, most: int | None = None) -> pd.DataFrame:
    """Return the leaves that a tree is drawn with, the last merges deciding where they are many.

    Parameters
    ----------
    clustering : Clustering
        From ``analysis.clustering.cluster``.
    most : int, optional
        How many leaves at most, from 2; without it, one a model.

    Returns
    -------
    pandas.DataFrame
        ``node`` (the number that the linkage has for what the leaf stands for), ``leaf`` (its
        place, from 0), ``model`` (its label, or how many and which a leaf of several stands for),
        ``family`` (the commonest of it), ``cluster`` (0 where it lies in several), ``models``
        (how many it stands for).
    """
    models = _models(clustering)
    if most is None or len(models) <= most:
        return models.assign(node=range(len(models)), models=1)
    members = [[place] for place in range(len(models))]
    for left, right, *_ in clustering.linkage[: len(models) - most]:
        members.append(members[int(left)] + members[int(right)])
    inner = {int(node) for merge in clustering.linkage[: len(models) - most] for node in merge[:2]}
    rows = [
        {"node": node, **_leaf(models.iloc[own])}
        for node, own in enumerate(members)
        if node not in inner
    ]
    found = pd.DataFrame(rows)
    found["leaf"] = found["leaf"].rank(method="first") - 1
    return found


def _models(clustering: Clustering) -> pd.DataFrame:
    """Return the table's rows in the order of the matrix, which the linkage counts by."""
    order = clustering.matrix.runs["run_id"]
    models = clustering.table.set_index("run_id").loc[list(order)].reset_index()
    models["leaf"] = models["leaf"].rank(method="first") - 1
    models["family"] = models["family"].fillna(UNKNOWN)
    return models


def _leaf(own: pd.DataFrame) -> dict[str, Any]:
    sizes = own["family"].value_counts()
    commonest = min(sizes.index, key=lambda name: (-int(sizes[name]), name))
    cluster = int(own["cluster"].iloc[0]) if own["cluster"].nunique() == 1 else 0
    label = own["model"].iloc[0] if len(own) == 1 else _label(len(own), commonest, sizes[commonest])
    return {
        "leaf": own["leaf"].min(), "model": label, "family": commonest, "cluster": cluster,
        "models": len(own),
    }  # fmt: skip


def _label(models: int, family: str, of_it: int) -> str:
    share = "all" if of_it == models else "mostly" if 2 * of_it > models else f"{of_it} of them"
    return f"{counted(models, 'model')}, {share} {family}"
