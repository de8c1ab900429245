"""The result of a query on a page: its rows as a table, and two of its columns as a drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

from analysis.answers.columns import Table
from analysis.figures.files.vega import specification, svg_of
from analysis.figures.theme import ACCENT, styled
from analysis.report.elements import PageTable, page_table
from analysis.report.inline_svg import embedded
from survey.text import counted

Rows = Sequence[Mapping[str, Any]]

#: Characters that a column's name may hold and that mean something in a specification.
_MEANINGFUL = str.maketrans({each: f"\\{each}" for each in "\\.[]'\""})


def rows_table(rows: Rows) -> PageTable:
    """Return some rows, at least one, as a table."""
    frame = pd.DataFrame(list(rows))
    names = [str(name) for name in frame]
    return page_table(Table("result", f"{counted(len(frame), 'row')}.", frame, names))


def rows_drawing(rows: Rows, x: str, y: str) -> str:
    """Return one column of some rows against another as an SVG element of a page."""
    frame = pd.DataFrame(list(rows))
    marks = alt.Chart(frame).mark_point(filled=True, color=ACCENT, opacity=0.8)
    chart = marks.encode(x=alt.X(**_axis(frame, x)), y=alt.Y(**_axis(frame, y)))
    svg = svg_of(specification(styled(chart.properties(width=560, height=300))))
    return embedded(svg, "chart", f"{y} against {x}")


def _axis(frame: pd.DataFrame, name: str) -> dict[str, Any]:
    number = pd.api.types.is_numeric_dtype(frame[name])
    scale = {"scale": alt.Scale(zero=False)} if number else {}
    kind = "quantitative" if number else "nominal"
    return {"field": name.translate(_MEANINGFUL), "type": kind, "title": name, **scale}
