"""Dendrogram: the hierarchy of clusters, with leaves by family (Figs. 5A and 16)."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from analysis.data.validation import require_kind
from analysis.figures.figure import Figure, figure
from analysis.figures.marks.model_colours import FAMILIES, ModelColours
from analysis.figures.theme import FAINT, LABEL_SIZE, UNKNOWN, text_width
from analysis.similarity.clusters import Clustering, clusters_finding, clusters_method
from survey.text import counted

#: Width of the tree, and height of a leaf, in pixels.
WIDTH, LEAF = 380, 15


def dendrogram_rows(clustering: Clustering, most: int | None = None) -> pd.DataFrame:
    """Return the tree's branches, one row a straight line.

    Parameters
    ----------
    clustering : Clustering
        From ``analysis.similarity.clusters.cluster``.
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
    clustering: Clustering, most: int | None = None, colours: ModelColours = FAMILIES
) -> Figure:
    """Draw the hierarchy, a leaf a model with colour and shape, and the cut's clusters.

    Parameters
    ----------
    clustering, most
        See ``dendrogram_rows``.
    colours : ModelColours
        What colour and shape stand for, by default the family; of a leaf of several models it is
        the commonest of them.
    """
    leaves = leaves_of(clustering, most, colours)
    named = WIDTH + 14 + text_width(leaves["model"])
    height = LEAF * len(leaves)
    title = f"distance at which clusters merge ({clustering.matrix.normalisation} DTW)"
    across = alt.X("near:Q", title=title, scale=alt.Scale(reverse=True, zero=True))
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
    models = len(clustering.table)
    shortened = f" The last {len(leaves) - 1} merges of {models - 1:,} are drawn."
    drawn = alt.layer(*tree, *_leaf_layers(leaves, scale, colours), *_brackets(leaves, named))
    return figure(
        drawn.properties(width=WIDTH, height=height).resolve_scale(
            color="independent", shape="independent"
        ),
        clusters_finding(clustering),
        note=f"{clusters_method(clustering)}. Strong branches lie within a cluster, numbered to the"
        " right." + (shortened if len(leaves) < models else ""),
        source=clustering.table,
        width=int(named + 40),
    )


def leaves_of(
    clustering: Clustering, most: int | None = None, colours: ModelColours = FAMILIES
) -> pd.DataFrame:
    """Return the leaves of a drawn tree; of too many, those that the last merges join.

    Parameters
    ----------
    clustering : Clustering
        From ``analysis.similarity.clusters.cluster``.
    most : int, optional
        How many leaves at most, from 2; without it, one a model.
    colours : ModelColours
        What colours stand for.

    Returns
    -------
    pandas.DataFrame
        ``node`` (the number that the linkage has for what the leaf stands for), ``leaf`` (its
        place, from 0), ``model`` (its label, or how many and which a leaf of several stands for),
        ``family`` and ``colour`` (the commonest of it), ``cluster`` (0 where it lies in several),
        ``models`` (how many it stands for).
    """
    # The table that ``clusters`` returns has no tree.
    require_kind(clustering, Clustering, "cluster(distance_matrix(signatures))")
    models = _models(clustering)
    models["colour"] = colours.of(models)
    if most is None or len(models) <= most:
        return models.assign(node=range(len(models)), models=1)
    members = [[place] for place in range(len(models))]
    for left, right, *_ in clustering.linkage[: len(models) - most]:
        members.append(members[int(left)] + members[int(right)])
    inner = {int(node) for merge in clustering.linkage[: len(models) - most] for node in merge[:2]}
    rows = [
        {"node": node, **_leaf(models.iloc[group])}
        for node, group in enumerate(members)
        if node not in inner
    ]
    result = pd.DataFrame(rows)
    result["leaf"] = result["leaf"].rank(method="first") - 1
    return result


def _leaf_layers(leaves: pd.DataFrame, scale: alt.Scale, colours: ModelColours) -> list[Any]:
    base = alt.Chart(leaves).encode(y=alt.Y("leaf:Q", scale=scale, axis=None))
    points = base.mark_point(filled=True, opacity=1, size=44).encode(
        x=alt.value(WIDTH + 6), **colours.marks(leaves, WIDTH + 100)
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
        x=alt.value(x + 8), y=alt.Y("from:Q", axis=None), y2="to:Q"
    )
    numbers = base.mark_text(align="left", fontSize=LABEL_SIZE, color="#222222").encode(
        x=alt.value(x + 14), y=alt.Y("middle:Q", axis=None), text="cluster:N"
    )
    return [bars, numbers]


def _models(clustering: Clustering) -> pd.DataFrame:
    """Return the table's rows in the order of the matrix, as the linkage numbers them."""
    order = clustering.matrix.runs["run_id"]
    models = clustering.table.set_index("run_id").loc[list(order)].reset_index()
    models["leaf"] = models["leaf"].rank(method="first") - 1
    models["family"] = models["family"].fillna(UNKNOWN)
    return models


def _leaf(group: pd.DataFrame) -> dict[str, Any]:
    commonest, of_it = _commonest(group["family"])
    cluster = int(group["cluster"].iloc[0]) if group["cluster"].nunique() == 1 else 0
    models = len(group)
    share = "all" if of_it == models else "mostly" if 2 * of_it > models else f"{of_it} of them"
    several = f"{counted(models, 'model')}, {share} {commonest}"
    label = several if models > 1 else group["model"].iloc[0]
    return {
        "leaf": group["leaf"].min(), "model": label, "family": commonest, "cluster": cluster,
        "models": models, "colour": _commonest(group["colour"])[0],
    }  # fmt: skip


def _commonest(values: pd.Series[str]) -> tuple[str, int]:
    """Return the commonest value, the first by name of equally common ones, and its number."""
    sizes = values.value_counts()
    commonest = min(sizes.index, key=lambda name: (-int(sizes[name]), name))
    return commonest, int(sizes[commonest])
