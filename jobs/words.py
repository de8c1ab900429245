"""The words that options of the command line may take."""

from __future__ import annotations

from typing import Literal

#: What workers compute on.
DeviceChoice = Literal["auto", "cpu", "cuda"]

#: Who carries jobs out.
RunnerChoice = Literal["ray", "local"]

#: How a table is written.
Format = Literal["table", "json", "csv", "parquet"]
