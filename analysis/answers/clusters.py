"""Which signatures are alike: clusters, their stability, mean curves, and all distances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from analysis.answers.base import Answer, AnswerTable, DistanceAnswer
from analysis.choices import Linkage
from analysis.option_fields import option
from survey.errors import SettingsError

if TYPE_CHECKING:
    import pandas as pd

#: Models up to which a matrix of distances shows all of them, and models of one that shows some.
MOST_IN_MATRIX, REPRESENTATIVES = 60, 9

#: Draws of batches of a page: a hundred would cost more than all else of it.
STABILITY_DRAWS = 25


def _clusters_option() -> Any:
    return option(None, "Number of clusters.", minimum=1, none="the silhouette decides")


def _seed_option() -> Any:
    return option(0, "Seed of the draws of batches and of k-means.")


@dataclass(frozen=True, eq=False)
class Clusters(DistanceAnswer):
    """Cluster models by the dynamic time warping distance between their signatures.

    The finding is how far the clusters agree with the families the models belong to.
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
    found_by = "analysis.similarity.clusters:clusters_finding"
    figure = file = "dendrogram"
    #: Leaves of the tree; in a larger one they stand for several models each.
    most = 100

    linkage: Linkage = option(
        "average", "How the distance between two clusters follows from those of their members."
    )
    clusters: int | None = _clusters_option()
    stability: int = option(0, "Number of bootstrap draws of batches; 0 for none.", minimum=0)
    seed: int = _seed_option()

    @cached_property
    def statistics(self) -> Any:
        """The clusters and their tree, with their stability if draws are asked for."""
        from analysis.similarity.clusters import cluster
        from analysis.similarity.stability import with_stability

        clustering = cluster(self.matrix, self.linkage, self.clusters)
        if not self.stability:
            return clustering
        layers, watch = self.material.layers, self.material.watch
        return with_stability(
            clustering, layers, self.stability, self.seed, lambda draws: watch("draws", draws)
        )

    @property
    def rows(self) -> pd.DataFrame:
        """One row a model, in the order of the leaves."""
        table: pd.DataFrame = self.statistics.table.sort_values("leaf").reset_index(drop=True)
        return table

    def details(self) -> Sequence[str]:
        """Return how clusters were made, and how stable they are."""
        from analysis.similarity.clusters import clusters_method
        from analysis.similarity.stability import stability_sentence

        stable = [stability_sentence(self.statistics)] if self.stability else []
        return [f"{clusters_method(self.statistics)}.", *stable, *self.left_out()]

    def tables(self) -> Iterator[AnswerTable]:
        """Yield the agreement with families, also of raw signatures, and the members."""
        from analysis.similarity.clusters import cluster

        columns = (
            *("label", "n", "clusters", "labels", "adjusted_rand", "adjusted_mutual_information"),
        )
        raw = cluster(self.material.matrix("raw"))
        for name, how, clustering in (
            (self.normalisation, "at equal relative depths", self.statistics),
            ("raw", "as they are, as in the paper", raw),
        ):
            caption = f"Agreement of clusters with families, from signatures {how}."
            yield AnswerTable(f"agreement-{name}", caption, clustering.agreement, columns)
        yield from super().tables()


@dataclass(frozen=True, eq=False)
class Stability(Answer):
    """How stable the clusters are, had other images been measured."""

    name = "stability"
    page = "clusters"
    caption = "The stability of each cluster, over draws of batches."
    columns = ("cluster", "models", "stability")
    found_by = "analysis.similarity.stability:stability_sentence"

    @cached_property
    def statistics(self) -> Any:
        """The clusters of the default options with their stability."""
        from analysis.similarity.stability import with_stability

        clustering = Clusters.of(self.material).statistics
        return with_stability(clustering, self.material.layers, STABILITY_DRAWS)

    @property
    def rows(self) -> pd.DataFrame:
        """One row a cluster."""
        clusters = self.statistics.table.groupby("cluster")
        table: pd.DataFrame = clusters.agg(
            models=("model", "size"), stability=("stability", "first")
        )
        return table.reset_index()


@dataclass(frozen=True, eq=False)
class MeanCurves(DistanceAnswer):
    """Cluster by k-means with barycentres, not hierarchically."""

    name = "barycentres"
    command = "cluster --kmeans"
    columns = ("cluster", "model", "family", "family_group", "distance")
    found_by = "analysis.similarity.kmeans:barycentres_finding"
    figure = "barycentre"

    clusters: int | None = _clusters_option()
    seed: int = _seed_option()

    @cached_property
    def statistics(self) -> Any:
        """The clusters and the curves they lie around."""
        from analysis.similarity.kmeans import kmeans

        if self.clusters is None:
            raise SettingsError(
                "--kmeans needs --clusters",
                hint="the silhouette of a hierarchy suggests a number: run it without --kmeans",
            )
        return kmeans(self.matrix, self.clusters, self.seed)

    @property
    def rows(self) -> pd.DataFrame:
        """One row a model, the nearest to its barycentre first."""
        table: pd.DataFrame = self.statistics.table.sort_values(["cluster", "distance"])
        return table.reset_index(drop=True)

    def details(self) -> Sequence[str]:
        """Return how the clusters were made, and how closely they hold together."""
        inertia = self.statistics.inertia
        return [*super().details(), f"K-means from seed {self.seed}, inertia {inertia:.4g}."]


@dataclass(frozen=True, eq=False)
class Distances(DistanceAnswer):
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
        """The matrix in the order of the tree, of many models some."""
        some = None if len(self.matrix) <= MOST_IN_MATRIX else REPRESENTATIVES
        return self.matrix, Clusters.of(self.material).statistics, some
