"""Nearest neighbours of models, families predicted from them, and novelty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analysis.answers.base import ColouredAnswer, DistanceAnswer
from analysis.answers.columns import TableColumn
from analysis.option_fields import option


def _number_option(default: int | None) -> Any:
    return option(
        default,
        "Number of neighbours of MODEL, or of each; of architectures that vote on a family.",
        flags=("--number", "-n"),
        minimum=1,
        maximum=10**6,
        none="5 of MODEL, else 1",
    )


@dataclass(frozen=True, eq=False)
class NearestNeighbours(DistanceAnswer):
    """List the models with the nearest signatures, by dynamic time warping.

    With --families, how often the nearest architecture is of the same family.
    """

    name = command = "neighbours"
    columns = ("model", "family", "rank", "other_model", "other_family", "distance")
    computed_by = "analysis.similarity.neighbours:neighbours"
    found_by = "analysis.similarity.neighbours:neighbours_finding"
    figure = "neighbour"

    model: str | None = option(
        None, "A model's label, architecture or run id.", positional=True, metavar="[MODEL]"
    )
    number: int | None = _number_option(None)

    @property
    def options(self) -> dict[str, Any]:
        """The model, and the number of neighbours: five of one model, else one of each."""
        return {"model": self.model, "number": self.number or (5 if self.model else 1)}


@dataclass(frozen=True, eq=False)
class FamilyNovelty(ColouredAnswer, DistanceAnswer):
    """Rank models by how unlike any known family they are."""

    name = figure = "novelty"
    command = "neighbours --novelty"
    page = "clusters"
    caption = "Models least like any known family come first."
    columns = (
        *("model", "family", "novelty", "nearest_family", "nearest_model", "distance"),
        TableColumn("reason", "why there is none", optional=True),
    )
    computed_by = "analysis.similarity.novelty:novelty"
    found_by = "analysis.similarity.novelty:novelty_finding"
    needed = "novelty"
    #: The models that the figure shows are those of the highest novelty.
    most = 100


@dataclass(frozen=True, eq=False)
class FamilyPredictions(DistanceAnswer):
    """Predict each model's family from its neighbours, leaving the model out."""

    name = "families"
    command = "neighbours --families"
    page = "clusters"
    caption = "The family that each model's nearest neighbour of another architecture has."
    columns = (
        *("model", "family", "predicted", "right", "nearest_model", "distance"),
        TableColumn("reason", "why there is none, or it is not counted"),
    )
    computed_by = "analysis.similarity.family_predictions:family_predictions"
    found_by = "analysis.similarity.family_predictions:predictions_finding"
    figure = "prediction"
    needed = "right"

    number: int = _number_option(1)
