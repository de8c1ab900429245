"""Nearest neighbours of models, families predicted from them, and novelty.

Reads a matrix of ``analysis.similarity.distances``. Runs of one architecture (other weights,
another dataset) are alike whatever their family, so predictions and novelty compare a model with
other architectures only, each counted once; source and architecture together name one. Random
weights (``init:...``) carry no information on a family: they have a row, but no vote unless
``untrained`` is given.

Notes
-----
*Family prediction* leaves out the model's whole architecture and lets the nearest architectures of
a known family vote, each by its nearest run; the nearest decides between equal numbers of votes.

*Novelty* is the distance to the nearest model of a known family and another architecture, over the
median distance from models to the nearest other architecture of their family. About 1 is as near as
relatives are, 3 is three times as far. The
distance to the nearest neighbour as a score of being unlike is that of [1]_ (see also [2]_, section
5.1); dividing by the scale keeps the order. The paper's outlook asks for such a measure: which
networks are unlike any known family.

References
----------
.. [1] S. Ramaswamy, R. Rastogi, K. Shim, "Efficient algorithms for mining outliers from large data
   sets", SIGMOD 2000, 427-438, doi:10.1145/342009.335437.
.. [2] V. Chandola, A. Banerjee, V. Kumar, "Anomaly detection: a survey", ACM Computing Surveys 41
   (2009), doi:10.1145/1541880.1541882.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from analysis.array_types import Floats, Integers
from analysis.data.model_names import trained
from analysis.data.validation import require_kind
from analysis.similarity.distances import DistanceMatrix
from analysis.text import number
from survey.errors import SettingsError
from survey.text import counted

Mask = NDArray[np.bool_]
Row = dict[Hashable, object]

_NEIGHBOURS = (
    *("run_id", "model", "family", "rank"),
    *("other_run_id", "other_model", "other_family", "distance"),
)
_PREDICTIONS = (
    *("run_id", "model", "family", "predicted", "right"),
    *("nearest_model", "distance", "reason"),
)
_NOVELTIES = (
    *("run_id", "model", "family", "novelty"),
    *("nearest_family", "nearest_model", "distance", "reason"),
)

#: Columns that hold no text.
_KINDS = {"rank": "int64", "distance": "float64", "novelty": "float64", "right": "boolean"}


@dataclass(frozen=True, slots=True, eq=False)
class _Models:
    """Distances, families and architectures of a matrix, by place."""

    values: Floats
    #: ``run_id``, ``model`` and ``family`` of each.
    names: list[dict[Hashable, object]]
    #: Equal for equal ones, -1 where not known.
    families: Integers
    #: Equal for equal ones; a unique number below 0 where not known.
    architectures: Integers
    #: Which may vote and are counted.
    counted: Mask

    @classmethod
    def of(cls, matrix: DistanceMatrix, *, untrained: bool = True) -> _Models:
        # In a notebook, the frame that clusters(...) takes is the likely thing to pass.
        require_kind(matrix, DistanceMatrix, "distance_matrix(signatures)")
        runs = matrix.runs
        known = runs["architecture"].notna()
        pairs = pd.MultiIndex.from_frame(runs[["source", "architecture"]])
        return cls(
            matrix.values,
            runs[["run_id", "model", "family"]].to_dict("records"),
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
        One row a model and neighbour, the nearest first: ``run_id``, ``model``, ``family``,
        ``rank`` (from 1), ``other_run_id``, ``other_model``, ``other_family``, ``distance``.
        Those equally far are in the order of the matrix. No rows for one model.

    Raises
    ------
    SettingsError
        If the number is below 1.
    UnknownName
        If there is no such model.
    """
    _require_number(number)
    models = _Models.of(matrix)
    places = range(len(matrix)) if model is None else [matrix.place(model)]
    rows = [row for place in places for row in _nearest_rows(models, place, number)]
    return _frame(matrix, rows, _NEIGHBOURS)


def family_predictions(
    matrix: DistanceMatrix, number: int = 1, *, untrained: bool = False
) -> pd.DataFrame:
    """Return which family each model's nearest neighbours suggest, its own architecture left out.

    Parameters
    ----------
    matrix : DistanceMatrix
        Distances between models.
    number : int
        How many architectures vote, at least 1, each by its nearest run.
    untrained : bool
        Whether random weights (``init:...``) vote and are counted too. Otherwise they have a row
        and a prediction by the others, but no part in what is right.

    Returns
    -------
    pandas.DataFrame
        One row a model: ``run_id``, ``model``, ``family``, ``predicted``, ``right`` (NA where the
        family could not be predicted or the model is not counted), ``nearest_model`` and
        ``distance`` (of the nearest that votes), ``reason`` (why not, such as the only architecture
        of its family). ``attrs`` hold ``neighbours`` (how many vote), ``predictable`` and ``right``
        (models), ``architectures`` (that the predictable are of), ``accuracy`` (the share that is
        right, each architecture weighing as much) and ``chance``: the accuracy that one
        architecture drawn at random would have.

    Raises
    ------
    SettingsError
        If the number is below 1.
    """
    _require_number(number)
    models = _Models.of(matrix, untrained=untrained)
    rows = [_prediction(models, place, number) for place in range(len(matrix))]
    table = _frame(matrix, rows, _PREDICTIONS)
    predictable = np.flatnonzero(table["right"].notna()).tolist()
    group = pd.Series(models.architectures[predictable])
    right = table["right"].iloc[predictable].to_numpy(bool)
    table.attrs |= {
        "neighbours": number,
        "predictable": len(predictable),
        "right": int(right.sum()),
        "architectures": group.nunique(),
        "accuracy": _mean_each(right, group),
        "chance": _mean_each([models.chance(place) for place in predictable], group),
    }
    return table


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
    models, places = _Models.of(matrix, untrained=untrained), range(len(matrix))
    counted = np.flatnonzero(models.counted).tolist()
    relatives = np.array([models.away(place, models.related(place)) for place in counted])
    nearest = np.array([models.away(place, models.voters(place)) for place in counted])
    group = relatives[~np.isnan(relatives)]
    usual = group if group.size else nearest[~np.isnan(nearest)]
    scale = float(np.median(usual)) if usual.size else float("nan")
    rows = [_novelty(models, place, scale) for place in places]
    # By the distance, which ranks alike and does not need a scale.
    table = _frame(matrix, rows, _NOVELTIES).sort_values(
        "distance", ascending=False, kind="stable", ignore_index=True
    )
    table.attrs |= {"scale": scale, "relatives": len(group)}
    return table


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
    kin = known["family"] == known["other_family"]
    if len(nearest) == 1:
        row = nearest.iloc[0]
        return (
            f"{row['model']} is nearest to {row['other_model']} ({number(row['distance'])}),"
            f" {'of' if kin.any() else 'not of'} its family"
        )
    models = counted(len(known), "model")
    return f"The nearest neighbour is of the same family in {int(kin.sum())} of {models}"


def predictions_finding(predictions: pd.DataFrame) -> str:
    """Return how many families are predicted right, beside a neighbour drawn at random.

    Parameters
    ----------
    predictions : pandas.DataFrame
        From ``family_predictions``.
    """
    facts, right = predictions.attrs, predictions["right"].dropna()
    if right.empty:
        return f"No model's family can be predicted (n = {len(predictions)})"
    several = facts.get("architectures", len(right)) < len(right)
    once = ", each architecture once" if several else ""
    random = f"; a neighbour drawn at random: {facts['chance']:.0%}" if "chance" in facts else ""
    share = f"{facts.get('accuracy', right.mean()):.0%}{once}{random}"
    return (
        f"The family of {int(right.sum())} of {counted(len(right), 'model')} is predicted right,"
        f" each left out in turn ({share})"
    )


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


def _nearest_rows(models: _Models, place: int, number: int) -> Iterator[Row]:
    others = np.arange(len(models.values)) != place
    for rank, other in enumerate(models.nearest(place, others)[:number], 1):
        named: Row = {f"other_{name}": value for name, value in models.names[other].items()}
        distance = float(models.values[place, other])
        yield {**models.names[place], "rank": rank, **named, "distance": distance}


def _prediction(models: _Models, place: int, number: int) -> Row:
    row = models.names[place]
    if models.families[place] < 0:
        return {**row, "reason": "its family is not known"}
    if not models.related(place).any():
        kin = models.apart(place) & (models.families == models.families[place])
        why = "no other trained architecture" if kin.any() else "the only architecture"
        return {**row, "reason": f"{why} of its family"}
    order = models.nearest_each(place, models.voters(place))[:number]
    # Counted in the order of distance, so the nearest comes first among equals.
    votes = Counter(models.names[other]["family"] for other in order)
    predicted = votes.most_common(1)[0][0]
    result: Row = {
        **row,
        "predicted": predicted,
        "nearest_model": models.names[order[0]]["model"],
        "distance": float(models.values[place, order[0]]),
    }
    if not models.counted[place]:
        return {**result, "reason": "random weights are not counted"}
    return {**result, "right": predicted == row["family"]}


def _novelty(models: _Models, place: int, scale: float) -> Row:
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


def _frame(matrix: DistanceMatrix, rows: list[Row], columns: tuple[str, ...]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=list(columns))
    table = table.astype({name: _KINDS.get(name, "str") for name in columns})
    table.attrs = matrix.attrs
    return table


def _mean_each(values: ArrayLike, architectures: pd.Series[int]) -> float:
    """Return the mean over architectures of the mean of each; NaN of nothing."""
    group = pd.Series(np.asarray(values, float)).groupby(architectures.to_numpy())
    return float(group.mean().mean())


def _require_number(number: int) -> None:
    if number < 1:
        raise SettingsError(f"{number} neighbours, must be at least 1")
