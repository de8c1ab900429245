"""Dendrogram: the hierarchy of clusters, with leaves by family (Figs. 5A and 16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import pandas as pd

from analysis.figures.leaves import leaves_of
from analysis.figures.theme import (
    FAINT,
    LABEL_SIZE,
    Figure,
    families,
    figure,
    text_width,
    told_apart,
)
from analysis.figures.words import number
from analysis.given import require_kind
from analysis.provenance import Provenance
from survey.words import counted

if TYPE_CHECKING:
    from analysis.clustering import Clustering

#: Width of the tree, and height of a leaf, in pixels.
WIDTH, LEAF = 380, 15


def dendrogram_rows(clustering: Clustering, most: int | None = None) -> pd.DataFrame:
    """Return the tree's branches, one row a straight line.

    Parameters
    ----------
    clustering : Clustering
        From ``analysis.clustering.cluster``.
    most : int, optional
        Leaves at most: of a larger tree the last merges alone, whose leaves stand for several
        models and begin at 0 like any other.

    Returns
    -------
    pandas.DataFrame
        ``merge`` (which merge the line belongs to, from 0), ``near``, ``far`` (distance at its
        ends), ``low``, ``high`` (place among the leaves at its ends, from 0), ``cluster`` (the
        cluster it lies in; 0 above the cut). Three rows a merge: two branches, and their join.
    """
    _require(clustering)
    leaves = leaves_of(clustering, most)
    places = {int(node): float(place) for node, place in leaves[["node", "leaf"]].to_numpy()}
    clusters = dict(zip(leaves["node"], leaves["cluster"], strict=True))
    heights = dict.fromkeys(places, 0.0)
    rows: list[tuple[int, float, float, float, float, int]] = []
    models = len(clustering.linkage) + 1
    for merge, (left, right, distance, _) in enumerate(clustering.linkage):
        a, b, height = int(left), int(right), float(distance)
        if merge <= models - 1 - len(leaves):
            continue
        inside = clusters[a] if clusters[a] == clusters[b] else 0
        # A branch belongs to its cluster up to the merge that leaves it.
        rows += [
            (merge, heights[each], height, places[each], places[each], inside) for each in (a, b)
        ]
        low, high = sorted((places[a], places[b]))
        rows.append((merge, height, height, low, high, inside))
        joined = models + merge
        places[joined] = (places[a] + places[b]) / 2
        heights[joined], clusters[joined] = height, inside
    return pd.DataFrame(rows, columns=["merge", "near", "far", "low", "high", "cluster"])


def dendrogram_chart(
    clustering: Clustering, provenance: Provenance | None = None, most: int | None = None
) -> Figure:
    """Draw the hierarchy, a leaf a model with colour and shape by family, and the cut's clusters.

    Parameters
    ----------
    clustering : Clustering
        From ``analysis.clustering.cluster``.
    provenance : Provenance, optional
        The caption's facts, where the table does not carry them.
    most : int, optional
        Leaves at most; see ``dendrogram_rows``.
    """
    _require(clustering)
    leaves = leaves_of(clustering, most)
    named = WIDTH + 14 + text_width(leaves["model"])
    height = LEAF * len(leaves)
    across = alt.X(
        "near:Q", title=_axis_title(clustering), scale=alt.Scale(reverse=True, zero=True)
    )
    scale = alt.Scale(domain=[-0.5, len(leaves) - 0.5], nice=False, zero=False, reverse=True)
    upwards = alt.Y("low:Q", axis=None, scale=scale)
    branches = (
        alt.Chart(dendrogram_rows(clustering, most))
        .mark_rule(strokeWidth=1.4)
        .encode(
            x=across, x2="far:Q", y=upwards, y2="high:Q",
            color=alt.condition("datum.cluster > 0", alt.value("#222222"), alt.value(FAINT)),
        )
    )  # fmt: skip
    tree = [branches] if len(clustering.linkage) else []
    drawn = alt.layer(*tree, *_leaf_layers(leaves, scale), *_brackets(leaves, named))
    return figure(
        drawn.properties(width=WIDTH, height=height).resolve_scale(
            color="independent", shape="independent"
        ),
        _finding(clustering),
        note=f"{clustering.matrix.normalisation.capitalize()} DTW, {clustering.method} linkage,"
        f" {clustering.cut}. Black branches lie within a cluster, numbered to the right."
        + _cut_short(clustering, leaves),
        source=clustering.table,
        provenance=provenance,
        width=int(named + 40),
    )


def _require(clustering: object) -> None:
    """Refuse the table that ``clusters`` returns, which has no tree."""
    from analysis.clustering import Clustering

    require_kind(clustering, Clustering, "cluster(distance_matrix(signatures))")


def _cut_short(clustering: Clustering, leaves: pd.DataFrame) -> str:
    if len(leaves) == len(clustering.table):
        return ""
    return f" The last {len(leaves) - 1} merges of {len(clustering.table) - 1:,} are drawn."


def _leaf_layers(leaves: pd.DataFrame, scale: alt.Scale) -> list[Any]:
    names = families(leaves)
    base = alt.Chart(leaves).encode(y=alt.Y("leaf:Q", scale=scale, axis=None))
    points = base.mark_point(filled=True, opacity=1, size=44).encode(
        x=alt.value(WIDTH + 6), **told_apart("family", names, WIDTH + 100, "family")
    )
    labels = base.mark_text(align="left", fontSize=LABEL_SIZE, color="#222222").encode(
        x=alt.value(WIDTH + 14), text="model:N"
    )
    return [points, labels]


def _brackets(leaves: pd.DataFrame, x: float) -> list[Any]:
    whole = leaves[leaves["cluster"] > 0]
    spans = whole.groupby("cluster")["leaf"].agg(["min", "max"]).reset_index()
    spans["from"], spans["to"] = spans["min"] - 0.35, spans["max"] + 0.35
    spans["middle"] = (spans["min"] + spans["max"]) / 2
    base = alt.Chart(spans)
    bars = base.mark_rule(strokeWidth=2, color="#222222").encode(
        x=alt.value(x + 8), y="from:Q", y2="to:Q"
    )
    numbers = base.mark_text(align="left", fontSize=LABEL_SIZE, color="#222222").encode(
        x=alt.value(x + 14), y="middle:Q", text="cluster:N"
    )
    return [bars, numbers]


def _axis_title(clustering: Clustering) -> str:
    return f"distance at which clusters merge ({clustering.matrix.normalisation} DTW)"


def _finding(clustering: Clustering) -> str:
    count = clustering.table["cluster"].nunique()
    models = counted(len(clustering.table), "model")
    agreement = clustering.agreement
    own = agreement[agreement["label"] == "family"] if len(agreement) else agreement
    if own.empty or own["adjusted_rand"].isna().all():
        return f"{models} in {counted(count, 'cluster')}"
    rand, mutual = (own[name].iloc[0] for name in ("adjusted_rand", "adjusted_mutual_information"))
    return (
        f"{counted(count, 'cluster')} of {models} agree with families at an adjusted Rand index of"
        f" {number(rand)} (adjusted mutual information {number(mutual)})"
    )
