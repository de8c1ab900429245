"""Novelty: how unlike any known family each model is.

Notes
-----
*Novelty* is the distance to the nearest model of a known family and another architecture, over the
median distance from models to the nearest other architecture of their family. About 1 is as near as
relatives are, 3 is three times as far. The distance to the nearest neighbour as a score of being
unlike is that of [1]_ (see also [2]_, section 5.1); dividing by the scale keeps the order. The
paper's outlook asks for such a measure: which networks are unlike any known family.

References
----------
.. [1] S. Ramaswamy, R. Rastogi, K. Shim, "Efficient algorithms for mining outliers from large data
   sets", SIGMOD 2000, 427-438, doi:10.1145/342009.335437.
.. [2] V. Chandola, A. Banerjee, V. Kumar, "Anomaly detection: a survey", ACM Computing Surveys 41
   (2009), doi:10.1145/1541880.1541882.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.similarity.distances import DistanceMatrix
from analysis.similarity.nearest_models import NearestModels, Row, neighbour_table
from analysis.text import number

_NOVELTIES = (
    *("run_id", "model", "family", "novelty"),
    *("nearest_family", "nearest_model", "distance", "reason"),
)


def novelty(matrix: DistanceMatrix, *, untrained: bool = False) -> pd.DataFrame:
    """Return how unlike any known family each model is, the most unlike first; see this module.

    Parameters
    ----------
    matrix : DistanceMatrix
        Distances between models.
    untrained : bool
        Whether random weights (``init:...``) are near families and set the scale too. Otherwise
        they have a novelty, as far as they are from the others.

    Returns
    -------
    pandas.DataFrame
        One row a model: ``run_id``, ``model``, ``family``, ``novelty`` (at least 0, about 1 for
        a model of a known family; NaN with a ``reason``), ``nearest_family``, ``nearest_model``,
        ``distance``. ``attrs`` hold the ``scale``, the distance that a novelty of 1 stands for,
        and ``relatives``, the number of models it is the median of; where no family holds two
        architectures, it is that of all models.
    """
    models, places = NearestModels.of(matrix, untrained=untrained), range(len(matrix))
    counted = np.flatnonzero(models.counted).tolist()
    relatives = np.array([models.away(place, models.related(place)) for place in counted])
    nearest = np.array([models.away(place, models.voters(place)) for place in counted])
    group = relatives[~np.isnan(relatives)]
    usual = group if group.size else nearest[~np.isnan(nearest)]
    scale = float(np.median(usual)) if usual.size else float("nan")
    rows = [_novelty(models, place, scale) for place in places]
    # By the distance, which ranks alike and does not need a scale.
    table = neighbour_table(matrix, rows, _NOVELTIES).sort_values(
        "distance", ascending=False, kind="stable", ignore_index=True
    )
    table.attrs |= {"scale": scale, "relatives": len(group)}
    return table


def novelty_finding(table: pd.DataFrame) -> str:
    """Return which model is the most unlike any known family, as a sentence.

    Parameters
    ----------
    table : pandas.DataFrame
        From ``novelty``.
    """
    known = table[table["novelty"].notna()].sort_values(
        ["novelty", "model"], ascending=[False, True]
    )
    if known.empty:
        return "No model has a novelty"
    first = known.iloc[0]
    return (
        f"{first['model']} is the most unlike any known family: novelty {number(first['novelty'])},"
        f" nearest {first['nearest_model']} (n = {len(known):,} models)"
    )


def _novelty(models: NearestModels, place: int, scale: float) -> Row:
    row = models.names[place]
    order = models.nearest(place, models.voters(place))
    if not order:
        return {**row, "reason": "no other architecture of a known family"}
    distance, nearest = float(models.values[place, order[0]]), models.names[order[0]]
    result: Row = {
        **row,
        "nearest_family": nearest["family"],
        "nearest_model": nearest["model"],
        "distance": distance,
    }
    if scale == 0:
        return {**result, "reason": "relatives have equal signatures, so there is no scale"}
    return {**result, "novelty": distance / scale}
