"""``survey cluster``: which models have signatures alike."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from jobs.choices import LinkageChoice
from jobs.cli.run_filters import Asked, BandOption, NormalisationOption, analysing
from survey.errors import SettingsError
from survey.text import counted

#: Leaves of a tree that a figure draws; in a larger one they stand for several models each.
MOST_LEAVES = 200

_TABLE = dict.fromkeys(("cluster", "model", "family", "family_group", "silhouette"))


@analysing
def cluster(
    asked: Asked,
    normalisation: NormalisationOption = "raw",
    linkage: Annotated[
        LinkageChoice, typer.Option("--linkage", help="Distance between clusters.")
    ] = "average",
    clusters: Annotated[
        int | None,
        typer.Option("--clusters", help="How many.  [default: the silhouette says]"),
    ] = None,
    band: BandOption = None,
    kmeans: Annotated[
        bool, typer.Option("--kmeans", help="By k-means with barycentres, not hierarchically.")
    ] = False,
    stability: Annotated[
        int, typer.Option("--stability", help="Bootstrap draws of batches.", min=0)
    ] = 0,
    seed: Annotated[int, typer.Option("--seed", help="Of k-means and of the draws.")] = 0,
) -> None:
    """Cluster models by the dynamic time warping distance between their signatures.

    Says how far the clusters agree with the families the models belong to.
    """
    from analysis.similarity.distances import distance_matrix

    if kmeans and (clusters is None or stability):
        raise SettingsError(
            "--kmeans needs --clusters and excludes --stability",
            hint="the silhouette of a hierarchy suggests a number: run it without --kmeans",
        )
    matrix = distance_matrix(asked.signatures(), normalisation, band)
    if kmeans:
        _by_barycentres(asked, matrix, int(clusters or 0), seed)
    else:
        _by_hierarchy(asked, matrix, linkage, clusters, stability, seed)


def _by_hierarchy(
    asked: Asked, matrix: Any, linkage: LinkageChoice, number: int | None, draws: int, seed: int
) -> None:
    from analysis.similarity.clusters import cluster

    found = cluster(matrix, linkage, number)
    if draws:
        from analysis.similarity.stability import with_stability
        from jobs.scan.progress_display import watched

        watch = partial(watched, "draws")
        found = with_stability(found, asked.layers(["affinity"]), draws, seed, watch)
    table = found.table.sort_values("leaf").reset_index(drop=True)
    told = f"{_shared_words(matrix)}, {linkage} linkage, {found.cut}"

    def draw() -> Any:
        from analysis import figures

        return figures.dendrogram_chart(found, most=MOST_LEAVES)

    headings = _TABLE | ({"stability": None} if draws else {})
    summary = [_counts(table, told), *_agreement(found.agreement), *_left_out(matrix)]
    if asked.figure is not None and len(table) > MOST_LEAVES:
        summary.append(f"note: the figure has {MOST_LEAVES} leaves, of several models each")
    if once := len(found.table.attrs.get("one_batch", ())):
        models = counted(once, "model")
        summary.append(f"measured on one batch, so the same in every draw: {models}")
    asked.answer(table, headings, summary, draw)


def _by_barycentres(asked: Asked, matrix: Any, number: int, seed: int) -> None:
    from analysis.similarity.clusters import kmeans

    found = kmeans(matrix, number, seed)
    table = found.table.sort_values(["cluster", "distance"]).reset_index(drop=True)

    def draw() -> Any:
        from analysis import figures

        return figures.barycentre_chart(found)

    headings = dict.fromkeys(("cluster", "model", "family", "family_group", "distance"))
    told = f"{_shared_words(matrix)}, k-means from seed {seed}, inertia {found.inertia:.4g}"
    summary = [_counts(table, told), *_agreement(found.agreement), *_left_out(matrix)]
    asked.answer(table, headings, summary, draw)


def _counts(table: Any, told: str) -> str:
    number = table["cluster"].nunique()
    return f"{counted(number, 'cluster')} of {counted(len(table), 'model')}: {told}"


def _shared_words(matrix: Any) -> str:
    band = "" if matrix.band is None else f", band {matrix.band}"
    return f"{matrix.normalisation} distances{band}"


def _agreement(agreement: Any) -> list[str]:
    words = {"family": "families", "family_group": "groups of families"}
    told = [
        f"{words.get(row['label'], row['label'])}: adjusted Rand {row['adjusted_rand']:.2f},"
        f" adjusted mutual information {row['adjusted_mutual_information']:.2f}"
        f" ({row['labels']} among {row['n']} models)"
        for row in agreement.dropna(subset="adjusted_rand").to_dict("records")
    ]
    alone = [
        f"{words.get(row['label'], row['label'])}: the {row['n']} models are all of one"
        for row in agreement.to_dict("records")
        if row["labels"] == 1 and row["n"] > 1
    ]
    return [f"agreement with {each}" for each in (*told, *alone)]


def _left_out(matrix: Any) -> list[str]:
    without, partial = matrix.without, int((matrix.runs["left_out"] > 0).sum())
    lines = [f"without any score, left out: {', '.join(without)}"] if without else []
    return lines + ([f"models with sites left out, without a score: {partial}"] if partial else [])
