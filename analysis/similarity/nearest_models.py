"""The models of a distance matrix as neighbours of each other, by place.

Runs of one architecture (other weights, another dataset) are alike whatever their family, so
predictions and novelty compare a model with other architectures only, each counted once; source and
architecture together name one. Random weights (``init:...``) carry no information on a family: they
have a row, but no vote unless ``untrained`` is given.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.array_types import Floats, Integers
from analysis.data.random_weights import trained
from analysis.data.validation import require_kind
from analysis.similarity.distances import DistanceMatrix
from survey.errors import SettingsError

Mask = NDArray[np.bool_]
Row = dict[Hashable, object]

#: Columns that hold no text.
_KINDS = {"rank": "int64", "distance": "float64", "novelty": "float64", "right": "boolean"}


@dataclass(frozen=True, slots=True, eq=False)
class NearestModels:
    """Distances, families and architectures of a matrix, by place."""

    values: Floats
    #: ``run_id``, ``model``, ``source``, ``architecture`` and ``family`` of each.
    names: list[dict[Hashable, object]]
    #: Equal for equal ones, -1 where not known.
    families: Integers
    #: Equal for equal ones; a unique number below 0 where not known.
    architectures: Integers
    #: Which may vote and are counted.
    counted: Mask

    @classmethod
    def of(cls, matrix: DistanceMatrix, *, untrained: bool = True) -> NearestModels:
        """Return the models of a matrix; random weights are counted if ``untrained``."""
        # In a notebook, the frame that clusters(...) takes is the likely thing to pass.
        require_kind(matrix, DistanceMatrix, "distance_matrix(signatures)")
        runs = matrix.runs
        known = runs["architecture"].notna()
        pairs = pd.MultiIndex.from_frame(runs[["source", "architecture"]])
        return cls(
            matrix.values,
            runs[["run_id", "model", "source", "architecture", "family"]].to_dict("records"),
            pd.factorize(runs["family"])[0],
            np.where(known, pd.factorize(pairs)[0], -1 - np.arange(len(runs))),
            trained(runs["checkpoint"].astype("str")).to_numpy(bool) | untrained,
        )

    def apart(self, place: int) -> Mask:
        """Return which models are of another architecture."""
        result: Mask = self.architectures != self.architectures[place]
        return result

    def voters(self, place: int) -> Mask:
        """Return which counted models are of another architecture and a known family."""
        return self.apart(place) & self.counted & (self.families >= 0)

    def related(self, place: int) -> Mask:
        """Return which of the voters are of the same family."""
        result: Mask = self.voters(place) & (self.families == self.families[place])
        return result

    def nearest(self, place: int, allowed: Mask) -> list[int]:
        """Return the allowed models, the nearest first, equals in the order of the matrix."""
        result = np.flatnonzero(allowed)
        order: list[int] = result[np.argsort(self.values[place, result], kind="stable")].tolist()
        return order

    def nearest_each(self, place: int, allowed: Mask) -> list[int]:
        """Return the nearest run of each allowed architecture, the nearest first."""
        result: dict[int, int] = {}
        for other in self.nearest(place, allowed):
            result.setdefault(int(self.architectures[other]), other)
        return list(result.values())

    def chance(self, place: int) -> float:
        """Return which share of the architectures that vote are of the same family."""
        related, voters = (
            np.unique(self.architectures[mask]).size
            for mask in (self.related(place), self.voters(place))
        )
        return related / voters

    def away(self, place: int, allowed: Mask) -> float:
        """Return the distance to the nearest of the allowed; NaN where there is none."""
        return float(self.values[place, allowed].min()) if allowed.any() else float("nan")


def neighbour_table(
    matrix: DistanceMatrix, rows: list[Row], columns: tuple[str, ...]
) -> pd.DataFrame:
    """Return rows about a matrix's models as a frame of these columns."""
    table = pd.DataFrame(rows, columns=list(columns))
    table = table.astype({name: _KINDS.get(name, "str") for name in columns})
    table.attrs = matrix.runs.attrs
    return table


def require_number(number: int) -> None:
    """Refuse a number of neighbours below 1."""
    if number < 1:
        raise SettingsError(f"{number} neighbours, must be at least 1")
