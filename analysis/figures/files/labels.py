"""Labels within figures for print: beside the ends of lines, and beside points.

Both are placed by pixels, from the rows that a drawing shows and the scales of its axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from analysis.figures.files.vega import View, layers_of, mark_of
from analysis.figures.theme import LABEL_SIZE, text_width

#: Lines up to which a label stands beside each, in place of a legend.
MOST_LINES = 6

#: Height of a label, and its distance from what it names, in pixels.
_HIGH, _NEAR = LABEL_SIZE + 1, 5

#: Room left and right, or above and below, of the outermost points of an axis without ends.
_PADDING = 12.0


@dataclass(frozen=True, slots=True)
class _Box:
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: _Box) -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def label_lines(spec: View, view: View, room: float) -> None:
    """Replace the legend of a few lines with a label beside the end of each, where that fits.

    Parameters
    ----------
    spec : dict
        The specification of the figure, which holds the rows.
    view : dict
        A drawing of it; it is changed.
    room : float
        The width that labels may take, in pixels.
    """
    lines = (each for each in layers_of(view) if mark_of(each) == "line")
    layer = next(filter(_legend, lines), None)
    if layer is None or "layer" not in view:
        return
    column = layer["encoding"]["color"]["field"]
    scale, y = layer["encoding"]["color"]["scale"], layer["encoding"].get("y", {})
    names, domain = scale["domain"], (y.get("scale") or {}).get("domain")
    if not 1 < len(names) <= MOST_LINES or domain is None or text_width(names) * 0.9 > room:
        return
    shown = [row for row in _rows(spec, view, layer) if row.get(y["field"]) is not None]
    ends = {row[column]: float(row[y["field"]]) for row in shown}
    if not ends.keys() >= set(names) or _repeats(spec, view, layer, column):
        return
    high, (low, top) = float(view["height"]), domain
    places = [high * (top - ends[name]) / (top - low) for name in names]
    colours = dict(zip(names, scale["range"], strict=True))
    for channel in ("color", "strokeDash"):
        layer["encoding"][channel]["legend"] = None
    for each in layers_of(view):
        if isinstance(each.get("encoding", {}).get("color"), dict):
            each["encoding"]["color"]["legend"] = None
    view["layer"] += [
        _text(str(name), float(view["width"]) + _NEAR, place, colours[name])
        for name, place in zip(names, _apart(places, high), strict=True)
    ]


def label_points(spec: View, view: View) -> int:
    """Add the name of its model beside each point of a drawing that has room for it.

    Its parameters are those of ``label_lines``.

    Returns
    -------
    int
        How many were placed.
    """
    layer = next((each for each in layers_of(view) if _points_of_models(each)), None)
    if layer is None or "layer" not in view:
        return 0
    rows = _rows(spec, view, layer)
    wide, high = float(view["width"]), float(view["height"])
    x = _places(view, rows, "x", wide)
    y = [high - each for each in _places(view, rows, "y", high)]
    points = list(zip(x, y, [str(row["model"]) for row in rows], strict=True))
    taken = [_Box(a - 4, b - 4, a + 4, b + 4) for a, b, _ in points]
    placed = 0
    for place, (a, b, name) in enumerate(points):
        others = taken[:place] + taken[place + 1 :]
        for box, align, at, level in _around(a, b, text_width([name]) * 0.92):
            inside = box.left >= 0 and box.right <= wide and box.top >= 0 and box.bottom <= high
            if inside and not any(box.meets(other) for other in others):
                taken.append(box)
                view["layer"].append(_text(name, at, level, "#222222", align))
                placed += 1
                break
    return placed


def _around(x: float, y: float, wide: float) -> Iterator[tuple[_Box, str, float, float]]:
    # Letters are lower than a line.
    half = 0.4 * _HIGH
    for level in (y, y - _HIGH, y + _HIGH):
        for align, at, left in (
            ("left", x + _NEAR, x + _NEAR),
            ("right", x - _NEAR, x - _NEAR - wide),
            ("center", x, x - wide / 2),
        ):
            yield _Box(left, level - half, left + wide, level + half), align, at, level


def _legend(layer: View) -> bool:
    encoding = layer.get("encoding", {})
    return bool(encoding.get("color", {}).get("legend") and encoding.get("strokeDash"))


def _points_of_models(layer: View) -> bool:
    encoding = layer.get("encoding", {})
    axes = [encoding.get(channel, {}) for channel in ("x", "y")]
    shown = [each.get("field") for each in encoding.get("tooltip") or () if isinstance(each, dict)]
    counts = all(each.get("type") == "quantitative" and "field" in each for each in axes)
    return mark_of(layer) == "point" and counts and "model" in shown


def _rows(spec: View, view: View, layer: View) -> list[View]:
    inner = (spec.get("vconcat") or [{}])[0]
    holders = (each.get("data") for each in (view, inner, spec))
    data: View = layer.get("data") or _inherited(view, layer) or next(filter(None, holders), {})
    rows: list[View] = spec.get("datasets", {}).get(data.get("name"), data.get("values", []))
    return rows


def _inherited(view: View, layer: View) -> Any:
    """Return the data of the group of layers that a layer lies in."""
    for part in view.get("layer", ()):
        if part is not layer and any(each is layer for each in layers_of(part)):
            return part.get("data") or _inherited(part, layer)
    return None


def _repeats(spec: View, view: View, layer: View, column: str) -> bool:
    """Return whether several lines have one name."""
    lines = {(row[column], row.get("run_id")) for row in _rows(spec, view, layer)}
    return len(lines) > len({name for name, _ in lines})


def _places(view: View, rows: Sequence[View], channel: str, room: float) -> list[float]:
    """Return the places of rows along an axis in pixels, and fix its ends so that they hold."""
    same = [
        each["encoding"][channel]
        for each in layers_of(view)
        if each.get("encoding", {}).get(channel, {}).get("type") == "quantitative"
    ]
    point = next(
        each["encoding"][channel]["field"] for each in layers_of(view) if _points_of_models(each)
    )
    scales = [each.get("scale") or {} for each in same]
    domain = next((d for each in scales if (d := each.get("domain"))), None)
    # An axis of several layers has one scale: lengths along a logarithmic one are those of logs.
    log = any(each.get("type") == "log" for each in scales)
    along: Callable[[float], float] = math.log10 if log else float
    values = [along(row[point]) for row in rows]
    if domain is None:
        low, high = min(values), max(values)
        span = (high - low) or 1.0
        slack = span * _PADDING / max(room - 2 * _PADDING, 1)
        low, high = low - slack, high + slack
        for each in same:
            each["scale"] = (
                {"type": "log", "domain": [10**low, 10**high], "nice": False}
                if log
                else {"domain": [low, high], "nice": False, "zero": False}
            )
    else:
        low, high = map(along, domain)
    return [room * (value - low) / (high - low) for value in values]


def _apart(places: Sequence[float], high: float) -> list[float]:
    """Return places with room for a label each, moved as little as a pass down and up allows."""
    order = sorted(range(len(places)), key=lambda place: places[place])
    result = list(places)
    for before, here in pairwise(order):
        result[here] = max(result[here], result[before] + _HIGH)
    floor = high
    for here in reversed(order):
        result[here] = min(result[here], floor)
        floor = result[here] - _HIGH
    return result


def _text(text: str, x: float, y: float, colour: str, align: str = "left") -> View:
    mark = {
        "type": "text", "align": align, "baseline": "middle", "fontSize": LABEL_SIZE,
        "color": colour,
    }  # fmt: skip
    encoding = {
        "x": {"value": round(x, 1)}, "y": {"value": round(y, 1)}, "text": {"value": text},
    }  # fmt: skip
    return {"data": {"values": [{}]}, "mark": mark, "encoding": encoding}
