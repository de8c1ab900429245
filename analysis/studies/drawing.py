"""How the figures of the studies look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt

from survey import SettingsError

#: The axis every study shares.
AFFINITY = alt.Y("affinity:Q", title="affinity score", scale=alt.Scale(domain=[0, 1]))

COLOURS = alt.Scale(scheme="tableau10")


def styled(chart: Any) -> Any:
    """Give a chart the quiet frame and grid of every figure here."""
    # Labels for screen readers on every mark would make a figure several times as large.
    framed = chart.configure(aria=False).configure_view(stroke="#ccc")
    return framed.configure_axis(gridColor="#eee")


def require_drawable(path: Path) -> None:
    """Refuse a file that is not SVG, PNG or HTML by its ending, before a long study begins."""
    if path.suffix.lower() not in {".svg", ".png", ".html"}:
        raise SettingsError(f"{path} is no figure's name, must end in .svg, .png or .html")
    if not path.parent.is_dir():
        raise SettingsError(f"{path} cannot be written: there is no directory {path.parent}")


def save_chart(chart: alt.TopLevelMixin, path: Path) -> None:
    """Write a chart as SVG, PNG or HTML, by the file's ending.

    Raises
    ------
    SettingsError
        If the ending is another one, or the file cannot be written.
    """
    require_drawable(path)
    try:
        chart.save(str(path))
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from None
