"""The values that options of the command line may take."""

from __future__ import annotations

from typing import Literal

#: The device that workers compute on.
DeviceChoice = Literal["auto", "cpu", "cuda"]

#: The format of a table.
Format = Literal["table", "json", "csv", "parquet"]

#: The formats that a service answers in, as endings of addresses; Arrow's is for programs.
Suffix = Literal["json", "csv", "parquet", "arrow"]

#: The formats that results of SQL are written in.
ResultFormat = Literal["table", Suffix]

#: Passes that train a network from its initial weights before a late linearisation.
PLAIN_EPOCHS = 6
