"""The values that options of the command line may take."""

from __future__ import annotations

from typing import Literal

#: The device that workers compute on.
DeviceChoice = Literal["auto", "cpu", "cuda"]

#: Missed due times of a schedule that are run.
MissedChoice = Literal["latest", "all", "skip"]

#: Policy for a due time while a former run is under way.
OverlapChoice = Literal["skip", "queue", "replace"]

#: The format of a table.
Format = Literal["table", "json", "csv", "parquet"]

#: The role of the sites in an analysis.
RoleChoice = Literal["all", "main", "gate"]

#: How signatures of unequal length are compared.
NormalisationChoice = Literal["raw", "length", "relative"]

#: The distance between two clusters.
LinkageChoice = Literal["average", "single", "complete"]

#: The level at which correlations are computed.
LevelChoice = Literal["model", "family", "all"]

#: The accuracy that is explained.
AccuracyChoice = Literal["measured", "reported"]

#: The pairs of runs that are compared.
ComparisonChoice = Literal[
    "residual", "twins", "datasets", "checkpoints", "training", "distributions", "paper"
]
