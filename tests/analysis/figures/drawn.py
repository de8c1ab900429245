"""What an SVG shows: its words, and how many marks of a kind."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import altair as alt

from analysis.figures import svg

#: The chart that was drawn last, and its drawing: a test asks several things of one chart.
_last: tuple[alt.TopLevelMixin, ElementTree.Element] | None = None


def parsed(chart: alt.TopLevelMixin) -> ElementTree.Element:
    """Return the SVG of a chart, which is not changed later."""
    global _last  # noqa: PLW0603
    if _last is None or _last[0] is not chart:
        _last = chart, ElementTree.fromstring(svg(chart))
    return _last[1]


def words(chart: alt.TopLevelMixin) -> str:
    """Return every text of a drawing, a line each broken line, joined by blanks."""
    texts = (each for each in parsed(chart).iter() if each.tag.endswith(("text", "tspan")))
    return " ".join((each.text or "").strip() for each in texts)


def title(chart: Any) -> str:
    """Return the finding that a figure states in its title."""
    return " ".join(chart["vconcat"][0]["title"]["text"])


def note(chart: Any) -> str:
    """Return how a figure says it is to be read, without drawing it."""
    return " ".join(chart["vconcat"][0]["title"]["subtitle"])


def marks(chart: alt.TopLevelMixin, kind: str) -> list[ElementTree.Element]:
    """Return the marks of a kind (symbol, line, rect, rule, text) that are no axis or legend's."""
    groups = [
        group
        for group in parsed(chart).iter()
        if f"mark-{kind} role-mark" in group.get("class", "")
    ]
    return [mark for group in groups for mark in group]
