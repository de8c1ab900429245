"""The nearest neighbours of models, by a matrix of ``analysis.similarity.distances``."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis.similarity.distances import DistanceMatrix
from analysis.similarity.nearest_models import NearestModels, Row, neighbour_table, require_number
from analysis.text import number
from survey.text import counted

_NEIGHBOURS = (
    *("run_id", "model", "architecture", "family", "rank"),
    *("other_run_id", "other_model", "other_architecture", "other_family", "distance"),
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
        One row a model and neighbour, the nearest first: ``run_id``, ``model``, ``architecture``,
        ``family``, ``rank`` (from 1), ``other_run_id``, ``other_model``, ``other_architecture``,
        ``other_family``, ``distance``. Those equally far are in the order of the matrix. No rows
        for one model.

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
    known = nearest[nearest["family"].notna() & nearest["other_family"].notna()]
    same = known["architecture"] == known["other_architecture"]
    if len(nearest) > 1:
        # Neither a family of one architecture nor other weights of one tell of a family.
        several = known.groupby("family")["architecture"].transform("nunique") > 1
        known = known[several & ~same]
    kin = known["family"] == known["other_family"]
    if len(nearest) == 1:
        row = nearest.iloc[0]
        relation = "of its family" if kin.any() else "not of its family"
        return (
            f"{row['model']} is nearest to {row['other_model']} ({number(row['distance'])}),"
            f" {'of its architecture' if same.any() else relation}"
        )
    weights = counted(int(same.sum()), "model")
    if known.empty and same.any():
        return f"The nearest neighbour of {weights} is other weights of the same architecture"
    if known.empty:
        return f"No family has two architectures among the {len(nearest)} models"
    models = f"{counted(len(known), 'model')} whose family has several architectures"
    apart = f"; of {weights} more it is the same architecture" if same.any() else ""
    return f"The nearest neighbour is of the same family in {int(kin.sum())} of {models}{apart}"


def _nearest_rows(models: NearestModels, place: int, number: int) -> Iterator[Row]:
    others = np.arange(len(models.values)) != place
    for rank, other in enumerate(models.nearest(place, others)[:number], 1):
        named: Row = {f"other_{name}": value for name, value in models.names[other].items()}
        distance = float(models.values[place, other])
        yield {**models.names[place], "rank": rank, **named, "distance": distance}
