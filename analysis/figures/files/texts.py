"""Titles, legends and names of a drawing, made to fit a width in pixels."""

from __future__ import annotations

from analysis.figures.files.vega import View, layers_of
from analysis.figures.theme import LABEL_SIZE, NOTE_SIZE, columns_of, text_width, wrapped

#: Height of a row whose name is broken into two lines, in pixels.
TWO_LINES = 26


def fit_title(view: View, cell: float) -> None:
    """Break the title of a panel into lines; that of a figure has no size of its own."""
    title = view.get("title")
    if not isinstance(title, dict) or "fontSize" not in title:
        return
    title.pop("limit", None)
    for key, size in (("text", title["fontSize"]), ("subtitle", title["subtitleFontSize"])):
        text = title.get(key) or ()
        lines = [text] if isinstance(text, str) else list(text)
        fitted = [each for line in lines for each in wrapped(line, 0.9 * cell, size, bold=True)]
        if fitted:
            title[key] = fitted


def fit_axis_titles(view: View) -> None:
    """Break the titles of horizontal axes: one beyond its drawing would take the drawing's room."""
    for layer in layers_of(view):
        across = layer.get("encoding", {}).get("x", {})
        if isinstance(title := across.get("title"), str):
            lines = wrapped(title, view["width"], NOTE_SIZE)
            across["title"] = lines if len(lines) > 1 else title


def fit_legends(view: View) -> None:
    """Lay legends below a drawing, in as many columns as it is wide."""
    for layer in layers_of(view):
        for channel in layer.get("encoding", {}).values():
            shown = channel.get("legend") if isinstance(channel, dict) else None
            if not shown:
                continue
            names = channel.get("scale", {}).get("domain")
            if "gradientLength" in shown:
                shown |= {"orient": "bottom", "direction": "horizontal", "offset": 8}
                shown["gradientLength"] = min(120, view["width"])
            elif isinstance(names, list) and shown.get("orient") == "bottom":
                shown["columns"] = columns_of(list(map(str, names)), view["width"])


def fit_names(view: View, room: float) -> None:
    """Break the names of an axis that would take the room of the drawing, or turn them."""
    for layer in layers_of(view):
        for channel in ("x", "y"):
            encoding = layer.get("encoding", {}).get(channel, {})
            axis, names = encoding.get("axis"), encoding.get("sort")
            if not isinstance(axis, dict):
                continue
            if "labelExpr" in axis:
                _break(axis, axis["labelExpr"], room, " (")
            elif not isinstance(names, list):
                continue
            elif channel == "x" and text_width(names) > view["width"] / max(len(names), 1):
                axis["labelAngle"] = axis.get("labelAngle") or -60
            elif channel == "y" and text_width(names) > room:
                between = " (" if any(" (" in name for name in names) else "@"
                _break(axis, "datum.label", room, between)
                if any(between in name for name in names):
                    view["height"] = max(view["height"], TWO_LINES * len(names))


def _break(axis: View, label: str, room: float, between: str) -> None:
    """Begin a line of names with what is in front of it, such as ``@checkpoint``."""
    lines = f"split(replace({label}, '{between}', '\\n{between.strip()}'), '\\n')"
    # The first line would stand at the middle.
    lift = f"indexof({label}, '{between}') < 0 ? 0 : {-(LABEL_SIZE + 1) / 2}"
    axis |= {"labelExpr": lines, "labelLimit": round(1.3 * room), "labelOffset": {"expr": lift}}
