"""The words that options of the command line may take."""

from __future__ import annotations

from typing import Literal

#: What workers compute on.
DeviceChoice = Literal["auto", "cpu", "cuda"]

#: Who carries jobs out.
RunnerChoice = Literal["ray", "local"]

#: Which missed due times of a schedule are run.
MissedChoice = Literal["latest", "all", "skip"]

#: What a due time does while a former run goes.
OverlapChoice = Literal["skip", "queue", "replace"]

#: How a table is written.
Format = Literal["table", "json", "csv", "parquet"]
