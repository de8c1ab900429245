"""Matrix of distances between signatures: all models, or one a family (Figs. 5B, 14 and 17)."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from analysis.data.provenance import narrowed
from analysis.data.rows_of_runs import of_runs
from analysis.data.validation import require_kind
from analysis.figures.figure import Figure, figure
from analysis.figures.marks.model_colours import FAMILIES, ModelColours
from analysis.figures.theme import LABEL_SIZE, UNKNOWN, text_width
from analysis.similarity.clusters import Clustering
from analysis.similarity.distances import DistanceMatrix, distances_finding
from survey.errors import SettingsError

#: Up to so many models cells hold their number.
NUMBERED = 14

#: Up to so many models cells are drawn: their number is the square of that.
MOST = 150


def matrix_rows(
    matrix: DistanceMatrix,
    clustering: Clustering | None = None,
    number_of_models: int | None = None,
) -> pd.DataFrame:
    """Return the matrix's cells, one row a cell.

    Parameters
    ----------
    matrix : DistanceMatrix
        From ``analysis.similarity.distances.distance_matrix``.
    clustering : Clustering, optional
        Whose leaves order the models; families and names do otherwise.
    number_of_models : int, optional
        Only the cells of the ``representatives`` of so many families.

    Returns
    -------
    pandas.DataFrame
        ``run_id``, ``model``, ``family``, ``other_run_id``, ``other_model``, ``other_family``,
        ``distance`` (0 on the diagonal), ``place``, ``other_place`` (in the order, from 0).
    """
    require_kind(matrix, DistanceMatrix, "distance_matrix(signatures)")
    if clustering is not None:
        require_kind(clustering, Clustering, "cluster(distance_matrix(signatures))")
    order = _order(matrix, clustering)
    if number_of_models is not None:
        chosen = representatives(matrix, number_of_models)
        order = [place for place in order if matrix.runs["run_id"].iloc[place] in chosen]
    runs = matrix.runs.iloc[order].reset_index(drop=True)
    values = matrix.values[np.ix_(order, order)]
    size = len(runs)
    place, other = (each.ravel() for each in np.indices((size, size)))
    cells: dict[str, Any] = {}
    for prefix, where in (("", place), ("other_", other)):
        for name in ("run_id", "model", "family"):
            cells[f"{prefix}{name}"] = runs[name].to_numpy()[where]
    cells |= {"distance": values.ravel(), "place": place, "other_place": other}
    return pd.DataFrame(cells)


def representatives(matrix: DistanceMatrix, number: int = 9) -> list[str]:
    """Return the run ids of the middle models of the largest known families, one each.

    The middle model of a family is its medoid: the smallest sum of distances to the others.

    Parameters
    ----------
    matrix : DistanceMatrix
        From ``analysis.similarity.distances.distance_matrix``.
    number : int
        How many at most.
    """
    require_kind(matrix, DistanceMatrix, "distance_matrix(signatures)")
    known = matrix.runs["family"]
    named = known if known.notna().any() else known.fillna(UNKNOWN)
    sizes = named.value_counts()
    largest = sorted(sizes.index, key=lambda name: (-int(sizes[name]), name))[:number]
    chosen = []
    for family in sorted(largest):
        members = np.flatnonzero(named == family)
        sums = np.nansum(matrix.values[np.ix_(members, members)], axis=1)
        chosen.append(str(matrix.runs["run_id"].iloc[members[int(np.argmin(sums))]]))
    return chosen


def matrix_chart(
    matrix: DistanceMatrix,
    clustering: Clustering | None = None,
    number_of_models: int | None = None,
    colours: ModelColours = FAMILIES,
) -> Figure:
    """Draw the distances between models as shades.

    Parameters
    ----------
    matrix, clustering, number_of_models
        See ``matrix_rows``.
    colours : ModelColours
        What the colour and shape of the marks beside the names stand for.

    Raises
    ------
    SettingsError
        If more than ``MOST`` models would be drawn.
    """
    require_kind(matrix, DistanceMatrix, "distance_matrix(signatures)")
    drawn = min(len(matrix), number_of_models or len(matrix))
    if drawn > MOST:
        raise SettingsError(
            f"{drawn:,} models are too many for a matrix, which shows {MOST} at most",
            hint="number_of_models=9 draws one of each of the largest families; a Selection of"
            " fewer models, or dendrogram_chart with most=100, shows more of them",
        )
    cells = matrix_rows(matrix, clustering, number_of_models)
    models = cells.drop_duplicates("run_id")
    models = models.assign(colour=colours.of(models))
    source = of_runs(matrix.runs, models)
    side = 34 if len(models) <= NUMBERED else 13
    extent = side * len(models)
    wide = max(extent + text_width(models["model"]) + 90, 420)
    return figure(
        _cells(cells, models, side, colours),
        distances_finding(matrix),
        note=f"{matrix.normalisation.capitalize()} DTW between signatures."
        + (" One model a family, its medoid." if number_of_models is not None else ""),
        source=source if number_of_models is None else narrowed(source, "one of each family"),
        width=int(wide),
    )


def _order(matrix: DistanceMatrix, clustering: Clustering | None) -> list[int]:
    runs = matrix.runs.reset_index(drop=True)
    if clustering is None:
        keyed = runs.assign(family=runs["family"].fillna("~"))
        return [int(each) for each in keyed.sort_values(["family", "model"]).index]
    leaf = clustering.table.set_index("run_id")["leaf"]
    return [int(each) for each in runs["run_id"].map(leaf).sort_values(kind="stable").index]


def _cells(cells: pd.DataFrame, models: pd.DataFrame, side: int, colours: ModelColours) -> Any:
    order = list(models["model"])
    extent = side * len(order)
    axis: dict[str, Any] = {"title": None, "ticks": False, "domain": False}
    base = alt.Chart(cells).encode(
        x=alt.X(
            "other_model:N", sort=order, axis=alt.Axis(labelAngle=-60, labelOverlap=False, **axis)
        ),
        y=alt.Y("model:N", sort=order, axis=alt.Axis(offset=12, labelOverlap=False, **axis)),
    )
    shade = alt.Color(
        "distance:Q", scale=alt.Scale(scheme="viridis", zero=True),
        legend=alt.Legend(title="distance", orient="right", gradientLength=min(extent, 160)),
    )  # fmt: skip
    layers = [base.mark_rect().encode(color=shade, tooltip=["model", "other_model", "distance"])]
    if len(order) <= NUMBERED:
        middle = float(np.nanmax([cells["distance"].max(), 1e-12])) / 2
        layers.append(
            base.mark_text(fontSize=LABEL_SIZE).encode(
                text=alt.Text("distance:Q", format=".2f"),
                color=alt.condition(
                    f"datum.distance > {middle}", alt.value("black"), alt.value("white")
                ),
            )
        )
    marks = (
        alt.Chart(models)
        .mark_point(filled=True, opacity=1, size=36)
        .encode(
            x=alt.value(-8),
            y=alt.Y("model:N", sort=order),
            **colours.marks(models, max(extent, 300)),
        )
    )
    drawn = alt.layer(*layers, marks).resolve_scale(color="independent", shape="independent")
    return drawn.properties(width=extent, height=extent)
