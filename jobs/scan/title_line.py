"""A line of a live display that is cut to its room."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.text import Text

from jobs.fitting import cut_title
from survey.text import printable


@dataclass(frozen=True, slots=True)
class TitleLine:
    """A line whose names are cut in their middle where it does not fit."""

    text: str
    style: str = ""

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> list[Text]:
        return [Text(cut_title(printable(self.text), options.max_width), self.style, no_wrap=True)]

    def __rich_measure__(self, _console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, Text(printable(self.text)).cell_len).with_maximum(options.max_width)
