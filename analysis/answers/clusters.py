"""Similarity of signatures: clusters, their stability, k-means, and all distances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar

from analysis.answers.base import Answer, ColouredAnswer, DistanceAnswer
from analysis.answers.columns import Table
from analysis.choices import Linkage
from analysis.option_fields import LARGEST_SEED, option

if TYPE_CHECKING:
    import pandas as pd

#: Models up to which a matrix of distances shows all of them, and models of one that shows some.
MOST_IN_MATRIX, REPRESENTATIVES = 60, 9

#: Draws of batches for the report: a hundred would take longer than the rest of it.
STABILITY_DRAWS = 25


@dataclass(frozen=True, eq=False)
class _ClusterAnswer(ColouredAnswer, DistanceAnswer):
    """An answer with a row for each model, and its cluster."""

    #: The columns by which rows are ordered.
    order: ClassVar[Sequence[str]]

    number: int | None = option(
        None,
        "Number of clusters.",
        flags=("--clusters",),
        minimum=1,
        maximum=10**6,
        none="the silhouette decides",
    )
    seed: int = option(
        0, "Seed of the draws of batches and of k-means.", minimum=0, maximum=LARGEST_SEED
    )

    @property
    def rows(self) -> pd.DataFrame:
        """One row a model."""
        table: pd.DataFrame = self.statistics.table
        return table.sort_values(list(self.order), ignore_index=True)


@dataclass(frozen=True, eq=False)
class SignatureClusters(_ClusterAnswer):
    """Cluster models by the dynamic time warping distance between their signatures.

    The finding is how far the clusters agree with the families of the models.
    """

    name = page = "clusters"
    command = "cluster"
    title = "Clusters"
    caption = "Every model's cluster, in the order of the tree."
    method = (
        "Distances are dynamic time warping (Sakoe and Chiba 1978) between signatures at 100 equal"
        " relative depths; the tree is average linkage, cut where the mean silhouette is highest."
        " Agreement with families is shown for raw signatures too, where deep and shallow networks"
        " are far apart because their signatures differ in length."
    )
    columns = ("cluster", "model", "family", "family_group", "silhouette", "stability")
    order = ("leaf",)
    computed_by = "analysis.similarity.clusters:cluster"
    found_by = "analysis.similarity.clusters:clusters_finding"
    figure = file = "dendrogram"
    #: Leaves of the tree; in a larger one each stands for several models.
    most = 100

    linkage: Linkage = option(
        "average", "How the distance between two clusters follows from those of their members."
    )
    stability: int = option(
        0, "Number of bootstrap draws of batches; 0 for none.", minimum=0, maximum=1000
    )

    @cached_property
    def statistics(self) -> Any:
        """The clusters and their tree, with their stability if draws are asked for."""
        from analysis.similarity.stability import with_stability

        clustering = super().statistics
        if not self.stability:
            return clustering
        watch = partial(self.material.watch, "draws")
        return with_stability(clustering, self.material.layers, self.stability, self.seed, watch)

    def details(self) -> Sequence[str]:
        """Return how clusters were computed, and how stable they are."""
        from analysis.similarity.clusters import clusters_method
        from analysis.similarity.stability import stability_sentence

        stable = [stability_sentence(self.statistics)] if self.stability else []
        return [f"{clusters_method(self.statistics)}.", *stable, *self.left_out()]

    def tables(self) -> Iterator[Table]:
        """Yield the agreement with families, also of raw signatures, and the members."""
        from analysis.similarity.clusters import cluster

        names = ("label", "n", "clusters", "labels", "adjusted_rand", "adjusted_mutual_information")
        raw = cluster(self.material.matrix("raw"))
        for name, how, clustering in (
            (self.normalisation, "at equal relative depths", self.statistics),
            ("raw", "as they are, as in the paper", raw),
        ):
            caption = f"Agreement of clusters with families, from signatures {how}."
            yield Table(f"agreement-{name}", caption, clustering.agreement, names)
        yield from super().tables()


@dataclass(frozen=True, eq=False)
class ClusterStability(Answer):
    """How stable the clusters would be on other images."""

    name = "stability"
    page = "clusters"
    caption = "The stability of each cluster, over draws of batches."
    columns = ("cluster", "models", "stability")
    found_by = "analysis.similarity.stability:stability_sentence"

    @cached_property
    def statistics(self) -> Any:
        """The clusters of the default options with their stability."""
        from analysis.similarity.stability import with_stability

        clustering = SignatureClusters.of(self.material).statistics
        return with_stability(clustering, self.material.layers, STABILITY_DRAWS)

    @property
    def rows(self) -> pd.DataFrame:
        """One row a cluster."""
        clusters = self.statistics.table.groupby("cluster")
        rows: pd.DataFrame = clusters.agg(
            models=("model", "size"), stability=("stability", "first")
        )
        rows = rows.reset_index()
        rows.attrs = self.statistics.table.attrs
        return rows


@dataclass(frozen=True, eq=False)
class KMeansClusters(_ClusterAnswer):
    """Cluster by k-means with barycentres, not hierarchically."""

    name = "barycentres"
    command = "cluster --kmeans"
    columns = ("cluster", "model", "family", "family_group", "distance")
    order = ("cluster", "distance")
    computed_by = "analysis.similarity.kmeans:kmeans"
    found_by = "analysis.similarity.kmeans:barycentres_finding"
    figure = "barycentre"

    @cached_property
    def options(self) -> dict[str, Any]:
        """The number of clusters, by default that of the hierarchy, and the seed."""
        if self.number is not None:
            return super().options
        from analysis.similarity.clusters import cluster

        return super().options | {"number": cluster(self.matrix).number}

    def details(self) -> Sequence[str]:
        """Return how the clusters were computed, and how close their models are."""
        inertia = self.statistics.inertia
        return [*super().details(), f"K-means from seed {self.seed}, inertia {inertia:.4g}."]


@dataclass(frozen=True, eq=False)
class SignatureDistances(ColouredAnswer, DistanceAnswer):
    """How far all signatures are from each other."""

    name = "distances"
    page = "clusters"
    columns = ("model", "family", "other_model", "other_family", "distance")
    found_by = "analysis.similarity.distances:distances_finding"
    figure = "matrix"

    @cached_property
    def statistics(self) -> Any:
        """The distances as a matrix."""
        return self.matrix

    @property
    def rows(self) -> pd.DataFrame:
        """One row a pair."""
        from analysis.similarity.distances import distance_pairs

        return distance_pairs(self.matrix)

    @property
    def drawn(self) -> Sequence[Any]:
        """The matrix, the tree that orders it, and the number of representative models."""
        some = None if len(self.matrix) <= MOST_IN_MATRIX else REPRESENTATIVES
        return self.matrix, SignatureClusters.of(self.material).statistics, some
