"""The nearest neighbours of models, by a matrix of ``analysis.similarity.distances``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from analysis.similarity.distances import DistanceMatrix
from analysis.similarity.nearest_models import NearestModels, Row, neighbour_table, require_number
from analysis.text import listed, missing, number
from survey.text import counted

_NEIGHBOURS = (
    *("run_id", "model", "source", "architecture", "family", "rank", "other_run_id"),
    *("other_model", "other_source", "other_architecture", "other_family", "distance"),
)


def neighbours(matrix: DistanceMatrix, model: str | None = None, number: int = 5) -> pd.DataFrame:
    """Return the models whose signatures are nearest.

    Parameters
    ----------
    matrix : DistanceMatrix
        Distances between models.
    model : str, optional
        Whose neighbours: a label, a run id or the beginning of one; all models' by default.
    number : int
        How many of each, at least 1; fewer where there are not so many.

    Returns
    -------
    pandas.DataFrame
        One row a model and neighbour, the nearest first: ``run_id``, ``model``, ``source``,
        ``architecture``, ``family``, ``rank`` (from 1), ``other_run_id``, ``other_model``,
        ``other_source``, ``other_architecture``, ``other_family``, ``distance``. Those equally far
        are in the order of the matrix. No rows for one model.

    Raises
    ------
    SettingsError
        If the number is below 1.
    UnknownName
        If there is no such model.
    """
    require_number(number)
    models = NearestModels.of(matrix)
    places = range(len(matrix)) if model is None else [matrix.place(model)]
    rows = [row for place in places for row in _nearest_rows(models, place, number)]
    return neighbour_table(matrix, rows, _NEIGHBOURS)


def neighbours_finding(table: pd.DataFrame) -> str:
    """Return how many models are nearest to one of their family, or whose neighbour one is.

    Parameters
    ----------
    table : pandas.DataFrame
        From ``neighbours``.
    """
    nearest = table[table["rank"] == 1]
    if nearest.empty:
        return "There is no other model to be near to"
    same = _networks(nearest) == _networks(nearest, "other_")
    if len(nearest) == 1:
        return _nearest_of_one(nearest.iloc[0], same=bool(same.any()))
    several = _networks(nearest).groupby(nearest["family"]).transform("nunique") > 1
    # Neither a family of one architecture nor another run of one tells of a family.
    judged, unknown = several & ~same, nearest["other_family"].isna()
    known = nearest[judged & ~unknown]
    runs, models = (counted(int(each.sum()), "model") for each in (same, judged & unknown))
    if known.empty and same.any():
        return f"The nearest neighbour of {runs} is another run of the same architecture"
    if known.empty and judged.any():
        return f"No family is known of the nearest neighbours of {models}"
    if known.empty:
        return f"No family has two architectures among the {len(nearest)} models"
    kin = int((known["family"] == known["other_family"]).sum())
    several_of = f"{counted(len(known), 'model')} whose family has several architectures"
    apart = f"; of {runs} more it is another run of the architecture" if same.any() else ""
    apart += f"; of {models} more its family is not known" if (judged & unknown).any() else ""
    return f"The nearest neighbour is of the same family in {kin} of {several_of}{apart}"


def _networks(table: pd.DataFrame, prefix: str = "") -> pd.Series[str]:
    """Return source and architecture of each row's model, or of its neighbour."""
    return table[f"{prefix}source"] + ":" + table[f"{prefix}architecture"]


def _nearest_of_one(row: pd.Series[Any], *, same: bool) -> str:
    """Return which model is nearest to one, and how they are related."""
    unknown = [row[f"{each}model"] for each in ("", "other_") if missing(row[f"{each}family"])]
    if same:
        relation = ", another run of its architecture"
    elif unknown:
        relation = f"; the family of {listed(unknown)} is not known"
    else:
        relation = f", {'' if row['family'] == row['other_family'] else 'not '}of its family"
    distance = number(row["distance"])
    return f"{row['model']} is nearest to {row['other_model']} ({distance}){relation}"


def _nearest_rows(models: NearestModels, place: int, number: int) -> Iterator[Row]:
    others = np.arange(len(models.values)) != place
    for rank, other in enumerate(models.nearest(place, others)[:number], 1):
        named: Row = {f"other_{name}": value for name, value in models.names[other].items()}
        distance = float(models.values[place, other])
        yield {**models.names[place], "rank": rank, **named, "distance": distance}
