"""Pages about the whole zoo: which signatures are alike, how they changed, how they spread."""

from __future__ import annotations

import pandas as pd

from analysis.report.data import Material, sites_sql, slug
from analysis.report.elements import (
    Column,
    Exhibit,
    Section,
    Table,
    fixed,
    probability,
    table,
    whole,
)
from analysis.report.svg import answer, finding_of
from survey.errors import SettingsError
from survey.text import counted

#: What a signature is told by in SQL.
_CURVE = ("run_id", "architecture", "checkpoint", "dataset", "family", "site", "affinity")

#: Models up to which a matrix of distances shows all of them.
MOST_IN_MATRIX = 60

#: Leaves of a tree; in a larger one they stand for several models each.
MOST_LEAVES = 100

#: Models shown as unlike any family, where there are more than ``MOST_LEAVES``.
MOST_UNLIKE = 50

#: Models of a family up to which each has a panel.
MOST_IN_FAMILY = 12

#: Models of a matrix that shows only some.
REPRESENTATIVES = 9

#: How often batches are drawn anew: a hundred would cost more than all else of the page.
STABILITY_DRAWS = 25

_ALIKE = (
    "Distances are dynamic time warping (Sakoe and Chiba 1978) between signatures at 100"
    " equal relative depths; the tree is average linkage, cut where the mean silhouette is"
    " highest. Agreement with families is shown for raw signatures too, where deep and"
    " shallow networks are far apart because their signatures differ in length."
)


def clusters(material: Material) -> Section:
    """Return the page of similar signatures: dendrogram, distances, families, unusual models."""
    from analysis.figures.dendrogram import dendrogram_chart, dendrogram_rows
    from analysis.figures.matrix import matrix_chart, matrix_rows
    from analysis.figures.neighbours import novelty_chart, novelty_rows
    from analysis.similarity.clusters import cluster
    from analysis.similarity.distances import distance_matrix
    from analysis.similarity.neighbours import novelty
    from analysis.similarity.stability import with_stability

    matrix = material.matrix
    found = with_stability(cluster(matrix), material.layers, STABILITY_DRAWS)
    raw = cluster(distance_matrix(material.measured, normalisation="raw"))
    sql = sites_sql(matrix.runs["run_id"], _CURVE)
    shown = None if len(matrix.runs) <= MOST_IN_MATRIX else REPRESENTATIVES
    scored = material.provenance_of_scored
    tree = dendrogram_chart(found, scored, MOST_LEAVES)
    heat = matrix_chart(found.matrix, found, shown, scored)
    unlike = novelty(matrix)
    most = MOST_UNLIKE if len(unlike) > MOST_LEAVES else None
    odd = novelty_chart(unlike, scored, most)
    return answer(
        Exhibit("dendrogram", tree, dendrogram_rows(found, MOST_LEAVES), sql),
        Exhibit("distances", heat, matrix_rows(found.matrix, found, shown), sql),
        Exhibit("novelty", odd, novelty_rows(unlike, most), sql),
        paragraphs=(_ALIKE, _stability(found.table)),
        tables=(
            _agreement(found.agreement, "relative", "at equal relative depths"),
            _agreement(raw.agreement, "raw", "as they are, as in the paper"),
            _members(material, found.table),
            _novelty(material, unlike),
            _predictions(material),
        ),
    )


def _stability(table: pd.DataFrame) -> str:
    """Say how stable the clusters are, and by how many draws."""
    once, models = len(table.attrs["one_batch"]), len(table)
    if once == models:
        return "Every model was measured on one batch: how stable clusters are is not known."
    known = table.groupby("cluster")["stability"].first()
    shares = " to ".join(dict.fromkeys(f"{share:.2f}" for share in (known.min(), known.max())))
    same = f" {counted(once, 'model')} measured on one batch cannot move." if once else ""
    return (
        f"Had other images been measured, a cluster would share {shares} of its models with its"
        f" nearest among the new ones (Jaccard's index, the mean over {STABILITY_DRAWS} draws of"
        f" batches with replacement, after Hennig 2007; 0.75 and more is stable).{same}"
    )


def _agreement(agreement: pd.DataFrame, name: str, how: str) -> Table:
    columns = (
        Column("label", "label", lambda value: str(value).replace("_", " ")),
        Column("n", "models", whole),
        Column("clusters", "clusters", whole),
        Column("labels", "labels", whole),
        Column("adjusted_rand", "adjusted Rand", fixed(2), "1 for the same parts, 0 for chance"),
        Column("adjusted_mutual_information", "adjusted mutual information", fixed(2)),
    )
    caption = f"Agreement of clusters with families, from signatures {how}."
    return table(f"agreement-{name}", caption, agreement, columns)


def _members(material: Material, members: pd.DataFrame) -> Table:
    columns = (
        Column("model", "model", links=material.pages_by_model),
        Column("cluster", "cluster", whole),
        Column("family", "family"),
        Column("family_group", "group"),
        Column("dataset", "dataset"),
        Column(
            "silhouette",
            "silhouette",
            fixed(2),
            "near 1 well within its cluster, below 0 nearer to another",
        ),
        Column("stability", "stability", fixed(2), "of the cluster, over draws of batches"),
        Column("leaf", "place in the tree", whole),
    )
    caption = "Every model's cluster, in the order of the tree."
    return table("members", caption, members.sort_values("leaf"), columns)


def _novelty(material: Material, unlike: pd.DataFrame) -> Table:
    links = material.pages_by_model
    columns = (
        Column("model", "model", links=links),
        Column("novelty", "novelty", fixed(2), "about 1 for a model of a known family"),
        Column("family", "family"),
        Column("nearest_family", "nearest family"),
        Column("nearest_model", "nearest model", links=links),
        Column("distance", "distance", fixed(3)),
        Column("reason", "why there is none"),
    )
    return table("novelty", "Models least like any known family come first.", unlike, columns)


def _predictions(material: Material) -> Table:
    from analysis.similarity.neighbours import family_predictions, share_words

    found = family_predictions(material.matrix)
    links = material.pages_by_model
    columns = (
        Column("model", "model", links=links),
        Column("family", "family"),
        Column("predicted", "predicted"),
        Column("right", "right", lambda value: "yes" if value else "no"),
        Column("nearest_model", "nearest model", links=links),
        Column("distance", "distance", fixed(3)),
        Column("reason", "why there is none, or it is not counted"),
    )
    told = ""
    if found.attrs.get("predictable"):
        told = (
            f" {found.attrs['right']} of {found.attrs['predictable']} are right"
            f" ({share_words(found)})."
        )
    caption = f"The family that each model's nearest neighbour of another architecture has.{told}"
    return table("predictions", caption, found, columns)


def depth(material: Material) -> Section:
    """Return the page of depth within a family: its networks from shallow to deep."""
    from analysis.figures.signatures import depth_chart, model_rows

    exhibits: list[Exhibit] = []
    for family, own in material.measured.groupby("family"):
        sites = own.groupby("run_id")["site"].size()
        if not 1 < len(sites) <= MOST_IN_FAMILY or sites.nunique() < 2:
            continue
        chart = depth_chart(material.measured, str(family))
        sql = sites_sql(sites.index, (*_CURVE, "activation", "repeat", "graph_depth"))
        # Numbered, as names may differ in what a file's name cannot hold.
        name = f"depth-{len(exhibits) + 1}-{slug(str(family))}"
        exhibits.append(Exhibit(name, chart, model_rows(own), sql))
    if not exhibits:
        raise SettingsError(
            f"no family has two to {MOST_IN_FAMILY} networks that differ in their number of sites"
        )
    finding = (
        f"{counted(len(exhibits), 'family has', 'families have')} networks of several depths:"
        f" {finding_of(exhibits[0].chart)}."
    )
    return Section(finding, exhibits=tuple(exhibits))


def timeline(material: Material) -> Section:
    """Return the page of signatures by the year of their architecture."""
    from analysis.figures.timeline import timeline_chart, timeline_rows
    from analysis.relations.timeline import timeline as history

    found = history(material.measured)
    dated = int(found["year"].notna().sum())
    if dated < 2 or found["year"].nunique() < 2:
        raise SettingsError(
            f"{counted(dated, 'model')} of {counted(found['year'].nunique(), 'year')}"
            " with a known year: two years at least are needed"
        )
    chart = timeline_chart(found, provenance=material.provenance_of_scored)
    sql = sites_sql(material.scored, ("run_id", "family", "site", "affinity"))
    columns = (
        Column("model", "model", links=material.pages_by_model),
        Column("year", "year", lambda value: str(int(value))),
        Column("family", "family"),
        Column("family_group", "group"),
        Column("lowest", "lowest", fixed(3)),
        Column("median", "median", fixed(3)),
        Column("highest", "highest", fixed(3)),
        Column("sites", "sites", whole),
    )
    caption = "Range of each model's affinity scores, oldest architecture first."
    return answer(
        Exhibit("timeline", chart, timeline_rows(found), sql),
        tables=[table("timeline", caption, found, columns)],
    )


def distributions(material: Material) -> Section:
    """Return the page of how each model's scores are spread."""
    from analysis.figures.distributions import distribution_chart, distribution_rows
    from analysis.relations.distributions import shapes

    if not material.scored:
        raise SettingsError("no run has a score")
    found = shapes(material.measured)
    chart = distribution_chart(
        material.measured, found, by="family", provenance=material.provenance_of_scored
    )
    rows = distribution_rows(material.measured, found, by="family")
    sql = sites_sql(material.scored, _CURVE)
    columns = (
        Column("model", "model", links=material.pages_by_model),
        Column("family", "family"),
        Column("sites", "sites", whole),
        Column("mean", "mean", fixed(3)),
        Column("std", "deviation", fixed(3)),
        Column(
            "bimodality_coefficient", "bimodality", fixed(2),
            "Sarle's coefficient; above 5/9, that of a uniform distribution, speaks for two modes",
        ),
        Column("dip", "dip", fixed(3), "Hartigan's dip, the distance from any single mode"),
        Column("dip_p", "p of the dip", probability),
        Column("reason", "why something is blank"),
    )  # fmt: skip
    caption = "How the affinity scores of each model are spread."
    return answer(
        Exhibit("distributions", chart, rows, sql),
        tables=[table("shapes", caption, found, columns)],
    )
