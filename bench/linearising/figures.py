"""The figures of the results: accuracy against path length."""

from __future__ import annotations

import altair as alt
import pandas as pd

from analysis.figures.theme import ACCENT, CONTRAST, lines_by, marked, styled

WIDTH, HEIGHT = 240, 220

#: Panels side by side.
PANELS = 4

_LOOKS = {"late": (ACCENT, "circle"), "early": (CONTRAST, "square")}


def trained_chart(rows: pd.DataFrame) -> alt.TopLevelMixin:
    """Draw a point a training and a line through the means of each penalty, a panel a name."""
    names = list(rows.name.unique())
    means = rows.groupby(["name", "beginning", "omega"], as_index=False)[
        ["path_length_normalised", "top1"]
    ].mean()
    marks = marked("beginning", _LOOKS)
    shown = pd.concat([rows.assign(mean=False), means.assign(mean=True)], ignore_index=True)
    base = alt.Chart(shown).encode(
        alt.X("path_length_normalised:Q").title("Path length (walk)"),
        alt.Y("top1:Q").title("Accuracy, held out").scale(zero=False),
    )
    points = (
        base.transform_filter("!datum.mean")
        .mark_point(filled=True, opacity=0.6, size=28)
        .encode(**marks)
    )
    line = (
        base.transform_filter("datum.mean")
        .mark_line()
        .encode(color=marks["color"], order="path_length_normalised:Q")
    )
    panels = (
        (line + points)
        .properties(width=WIDTH, height=HEIGHT)
        .facet(alt.Facet("name:N", sort=names).title(None), columns=PANELS)
        .resolve_scale(x="independent")
    )
    return styled(panels)


def untrained_chart(rows: pd.DataFrame) -> alt.TopLevelMixin:
    """Draw a line a network, a point for each share of the channels that is replaced."""
    names = list(rows.name.unique())
    width = 2 * WIDTH
    lines = (
        alt.Chart(rows)
        .mark_line(point=alt.OverlayMarkDef(size=16))
        .encode(
            alt.X("path_length_normalised:Q").title("Path length (walk)"),
            alt.Y("top1:Q").title("Accuracy, held out"),
            order="percentage:Q",
            **lines_by("name", names, width),
        )
        .properties(width=width, height=HEIGHT)
    )
    return styled(lines)
