"""A study's section of ``docs/activations.md``, and tables in Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import altair as alt
import pandas as pd


@dataclass(frozen=True, slots=True)
class StudySection:
    """A study's section of ``docs/activations.md``."""

    title: str
    #: What the figure shows.
    setting: str
    #: What the numbers show: paragraphs and tables in Markdown.
    results: str
    #: Further figures by file name.
    more_charts: Mapping[str, alt.TopLevelMixin] = field(default_factory=dict)


def markdown(table: pd.DataFrame, digits: int = 3) -> str:
    """Return a table in Markdown, numbers rounded."""

    def cell(value: object) -> str:
        if isinstance(value, float):
            return "-" if math.isnan(value) else f"{value:.{digits}f}"
        return str(value)

    lines = ["| " + " | ".join(map(str, table.columns)) + " |", "|" + "---|" * table.shape[1]]
    lines += [
        "| " + " | ".join(cell(v) for v in row) + " |" for row in table.to_numpy(dtype=object)
    ]
    return "\n".join(lines)
