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
