"""Families of models, predicted from their nearest neighbours.

A prediction leaves out the model's whole architecture and lets the nearest architectures of
a known family vote, each by its nearest run; the nearest decides between equal numbers of votes.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from analysis.similarity.distances import DistanceMatrix
from analysis.similarity.nearest_models import NearestModels, Row, neighbour_table, require_number
from survey.text import counted

_PREDICTIONS = (
    *("run_id", "model", "family", "predicted", "right"),
    *("nearest_model", "distance", "reason"),
)


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
    require_number(number)
    models = NearestModels.of(matrix, untrained=untrained)
    rows = [_prediction(models, place, number) for place in range(len(matrix))]
    table = neighbour_table(matrix, rows, _PREDICTIONS)
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
    if predictions["family"].nunique() == 1:
        return f"All models of a known family are of one, {predictions['family'].dropna().iloc[0]}"
    several = facts.get("architectures", len(right)) < len(right)
    once = ", each architecture once" if several else ""
    random = f"; a neighbour drawn at random: {facts['chance']:.0%}" if "chance" in facts else ""
    share = f"{facts.get('accuracy', right.mean()):.0%}{once}{random}"
    return (
        f"The family of {int(right.sum())} of {counted(len(right), 'model')} is predicted right,"
        f" each left out in turn ({share})"
    )


def _prediction(models: NearestModels, place: int, number: int) -> Row:
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


def _mean_each(values: ArrayLike, architectures: pd.Series[int]) -> float:
    """Return the mean over architectures of the mean of each; NaN of nothing."""
    group = pd.Series(np.asarray(values, float)).groupby(architectures.to_numpy())
    return float(group.mean().mean())
