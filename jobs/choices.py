"""The words that options of the command line may take."""

from __future__ import annotations

from typing import Literal

#: What workers compute on.
DeviceChoice = Literal["auto", "cpu", "cuda"]

#: Which missed due times of a schedule are run.
MissedChoice = Literal["latest", "all", "skip"]

#: What a due time does while a former run goes.
OverlapChoice = Literal["skip", "queue", "replace"]

#: How a table is written.
Format = Literal["table", "json", "csv", "parquet"]

#: Which sites an analysis is about.
RoleChoice = Literal["all", "main", "gate"]

#: What is done about signatures of unequal length.
NormalisationChoice = Literal["raw", "length", "relative"]

#: Which distance between two clusters joins them.
LinkageChoice = Literal["average", "single", "complete"]

#: Whose correlations are shown.
LevelChoice = Literal["model", "family", "all"]

#: Which accuracy is explained.
AccuracyChoice = Literal["measured", "reported"]

#: What is compared with what.
ComparisonChoice = Literal[
    "residual", "twins", "datasets", "checkpoints", "training", "distributions", "paper"
]
