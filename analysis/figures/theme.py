"""The theme of every figure: colours, shapes, dashes, fonts, axes and legends.

Notes
-----
The seven colours began as those of Okabe and Ito ("Color Universal Design", 2008) and were moved
until any two differ by more than 20 (CIE 1976) to normal, protanopic, deuteranopic and tritanopic
eyes as Machado et al. simulate them (2009, doi:10.1109/TVCG.2009.113), and each has a contrast of
at least 3 to 1 with white paper. Colour never tells things apart alone: shape or dash does too.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd

#: Options of a scale, axis or legend. Altair's own objects have a hundred fields, and are copied
#: with every chart around them.
Options = dict[str, Any]

#: Colours of categories.
PALETTE = ("#03509F", "#E67600", "#00894A", "#CC79A7", "#A90006", "#0099FF", "#000000")

#: Shapes of marks: one less, so that 42 pairs of colour and shape differ.
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")

#: Dashes of lines, in pixels drawn and left out: 35 pairs of colour and dash differ.
DASHES = ([1, 0], [6, 2], [2, 2], [8, 2, 2, 2], [7, 3])

#: The colours where the categories are not known beforehand.
COLOURS = alt.Scale(range=list(PALETTE))

#: Greys: of what belongs to no group and of guiding lines, and of what stands behind.
QUIET = "#767676"
FAINT = "#BDBDBD"

#: The colours of marks of one kind, and of two.
ACCENT, CONTRAST = PALETTE[0], PALETTE[1]

#: The label of unknown families.
UNKNOWN = "unknown"

#: Metrically equal on Linux, Windows and macOS, so that text keeps the room it was given.
FONT = "Arial, Liberation Sans, Helvetica, sans-serif"

TITLE_SIZE, NOTE_SIZE, LABEL_SIZE, CAPTION_SIZE = 13, 11, 10, 9

#: Mean width of a character over the font's size: bold titles, and plain text.
_BOLD_WIDTH, _PLAIN_WIDTH = 0.54, 0.48

#: The fixed scale of every score in [0, 1].
UNIT: Options = {"domain": [0, 1], "nice": False}

#: Affinity upwards.
AFFINITY = alt.Y("affinity:Q", title="affinity score", scale=UNIT)


def affinity_scale(*drawn: pd.Series[float]) -> alt.Scale:
    """Return the scale of affinity from the tenth below the lowest that is drawn, up to 1.

    It is for lines and marks, whose lengths stand for nothing.
    """
    lowest = min((float(each.min()) for each in drawn if len(each)), default=0.0)
    low = max(math.floor(10 * lowest) / 10, 0.0)
    return alt.Scale(domain=[min(low, 0.9), 1], nice=False)


def affinity_across(*drawn: pd.Series[float]) -> alt.X:
    """Return affinity to the right, by ``affinity_scale``.

    Below its lowest nothing is drawn: on a phone it would be all that is seen at first.
    """
    return alt.X("affinity:Q", title="affinity score", scale=affinity_scale(*drawn))


#: The frame, the grid and the fonts of every figure. Labels for screen readers on every mark would
#: make a figure several times as large.
_CONFIG: dict[str, Any] = {
    "aria": False, "font": FONT, "background": "white", "view": {"stroke": "#CCCCCC"},
    "axis": {
        "gridColor": "#EBEBEB", "domainColor": "#888888", "tickColor": "#888888",
        "titleFontWeight": "normal", "labelFlush": False, "labelFontSize": LABEL_SIZE,
        "titleFontSize": NOTE_SIZE, "labelLimit": 260, "titleColor": "#222222",
    },
    "legend": {
        "labelFontSize": LABEL_SIZE, "titleFontSize": LABEL_SIZE, "titleFontWeight": "normal",
        "labelLimit": 260, "symbolSize": 60, "columnPadding": 14, "padding": 7,
    },
    "header": {"labelFontSize": NOTE_SIZE, "titleFontSize": NOTE_SIZE, "labelLimit": 400},
    "title": {
        "fontSize": TITLE_SIZE, "subtitleFontSize": NOTE_SIZE, "subtitleColor": "#333333",
        "subtitlePadding": 4, "offset": 10, "lineHeight": TITLE_SIZE + 4, "subtitleLineHeight": 15,
    },
}  # fmt: skip


def styled(chart: Any) -> alt.TopLevelMixin:
    """Give a chart the frame, the grid and the fonts of every figure, and return it."""
    # Altair's own methods copy a chart with all charts in it, each of these some times over.
    chart.config = _CONFIG
    result: alt.TopLevelMixin = chart
    return result


def wrapped(text: str, width: float, size: float, *, bold: bool = False) -> list[str]:
    """Return the lines of a text that fit a width in pixels."""
    letter = _BOLD_WIDTH if bold else _PLAIN_WIDTH
    # Between the sides of an equation no line ends.
    whole = text.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    lines = textwrap.wrap(whole, max(24, int(width / (size * letter)))) or [""]
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def with_mark(base: Any, kind: str, **options: Any) -> Any:
    """Return a chart with a mark of options that are a mapping; see ``Options``.

    Parameters
    ----------
    base : altair.Chart
        Any chart.
    kind : str
        The mark, such as ``line``.
    **options : object
        As Vega-Lite has them.
    """
    chart = base.copy(deep=False)
    chart.mark = {"type": kind, **options}
    return chart


def colour_scale(names: Iterable[str]) -> Options:
    """Return the colours of named things, in order; ``UNKNOWN`` is grey."""
    return _scale(names, PALETTE, QUIET)


def shape_scale(names: Iterable[str]) -> Options:
    """Return the shapes of named things, in order; ``UNKNOWN`` has one of its own."""
    return _scale(names, SHAPES, "triangle-right")


def dash_scale(names: Iterable[str]) -> Options:
    """Return the dashes of named things, in order."""
    return _scale(names, DASHES, [1, 3])


def _scale(names: Iterable[str], values: Sequence[Any], unknown: Any) -> Options:
    domain = list(dict.fromkeys(names))
    known = [name for name in domain if name != UNKNOWN]
    of = {name: values[place % len(values)] for place, name in enumerate(known)}
    return {"domain": domain, "range": [of.get(name, unknown) for name in domain]}


def marks_by(
    column: str, names: Sequence[str], width: float, title: str | None = None
) -> dict[str, Any]:
    """Return the colour and shape of marks by a column, with one legend.

    Parameters
    ----------
    column : str
        The categories.
    names : sequence of str
        Its values, in order.
    width : float
        Width that the legend has to fit, in pixels.
    title : str, optional
        Title of the legend.
    """
    shown = legend(columns=columns_of(names, width), title=title)
    return _marks(column, colour_scale(names), shape_scale(names), shown)


def lines_by(
    column: str, names: Sequence[str], width: float, title: str | None = None
) -> dict[str, Any]:
    """Return the colour and dash of lines by a column, with one legend; see ``marks_by``."""
    shown = line_legend(columns=columns_of(names, width), title=title)
    return {
        "color": alt.Color(f"{column}:N", scale=colour_scale(names), legend=shown),
        "strokeDash": alt.StrokeDash(f"{column}:N", scale=dash_scale(names), legend=shown),
    }


def marked(column: str, looks: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """Return the colour and shape of marks by a column, given for each value, with one legend."""
    colours, shapes = (
        {"domain": list(looks), "range": list(each)} for each in zip(*looks.values(), strict=True)
    )
    return _marks(column, colours, shapes, legend(columns=len(looks)))


def _marks(column: str, colours: Options, shapes: Options, shown: Options) -> dict[str, Any]:
    return {
        "color": alt.Color(f"{column}:N", scale=colours, legend=shown),
        "shape": alt.Shape(f"{column}:N", scale=shapes, legend=shown),
    }


def names_down(column: str, order: Sequence[str], **axis: Any) -> alt.Y:
    """Return a vertical axis of names in this order, with room for long ones."""
    options: dict[str, Any] = {"labelLimit": 420, **axis}
    return alt.Y(f"{column}:N", title=None, sort=list(order), axis=alt.Axis(**options))


def legend(columns: int = 4, title: str | None = None, **options: Any) -> Options:
    """Return a legend below the drawing, in columns."""
    return {"orient": "bottom", "columns": columns, "title": title, "offset": 8, **options}


def line_legend(columns: int, title: str | None = None) -> Options:
    """Return a legend of lines below the drawing, in columns."""
    return legend(columns=columns, title=title, symbolType="stroke", symbolSize=200)


def columns_of(names: Sequence[str], width: float) -> int:
    """Return the number of columns of a legend of these names that fit a width in pixels."""
    longest = max((len(name) for name in names), default=1)
    return max(1, min(len(names), int(width / (longest * LABEL_SIZE * _PLAIN_WIDTH * 1.1 + 34))))


def text_width(names: Iterable[str]) -> float:
    """Return the approximate width of the longest of these texts, in pixels."""
    return max((len(name) for name in names), default=0) * LABEL_SIZE * _BOLD_WIDTH
