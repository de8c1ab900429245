"""Figures laid out for print: panels narrower and fewer side by side, until a width is met.

Letters keep their size; what gives way is the room of the drawings, and the panels beside them.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from analysis.figure_style import FONT_SIZE, FigureStyle
from analysis.figures.files.labels import label_lines, label_points
from analysis.figures.files.texts import fit_axis_titles, fit_legends, fit_names, fit_title
from analysis.figures.files.vega import View, layers_of, mark_of, svg_of
from analysis.figures.files.words import Words
from analysis.figures.theme import LABEL_SIZE
from survey.errors import FigureError, SettingsError

#: Pixels of an inch, as browsers and vl-convert count them.
INCH = 96.0

#: The least width of a drawing beside others, and of one alone, in pixels.
BESIDE, ALONE = 130.0, 60.0

#: Text in cells is broken, or left out, where these are narrower than this share of their natural
#: width; the room that the longer of its two lines takes, in pixels.
LEGIBLE, TWO_WORDS = 0.65, 33.0

#: A drawing that is narrower keeps at least this share of its height.
LOWEST = 0.62

_SIZE = re.compile(r'(?P<begin><svg[^>]*) width="(?P<width>[0-9.]+)" height="(?P<height>[0-9.]+)"')


@dataclass(frozen=True, slots=True)
class Printed:
    """A figure as it is drawn."""

    spec: View
    svg: str
    words: Words
    #: How much larger it is written than its pixels.
    zoom: float
    #: The width that was asked for, in inches.
    inches: float | None

    @property
    def size(self) -> tuple[float, float]:
        """The width and the height of the drawing in pixels."""
        return _size(self.svg)

    def sized(self, unit: str = "in", per_inch: float = 1.0) -> str:
        """Return the SVG with its size in a unit, of which an inch has so many."""
        wide, high = (f"{each * self.zoom / INCH * per_inch:.3f}{unit}" for each in self.size)
        return _SIZE.sub(rf'\g<begin> width="{wide}" height="{high}"', self.svg, count=1)

    @property
    def points(self) -> float:
        """The size of its labels in points."""
        return FONT_SIZE * self.zoom


def printed(spec: View, style: FigureStyle) -> Printed:
    """Return a figure laid out in a style.

    Parameters
    ----------
    spec : dict
        The Vega-Lite specification of a figure; it is changed.
    style : FigureStyle
        Its width, letters, texts, range and labels.

    Raises
    ------
    SettingsError
        If the figure has no vertical axis of numbers, or no points of models, that were asked for.
    """
    words = Words.taken(copy.deepcopy(spec))
    if style.y_range is not None:
        _set_range(spec, *style.y_range)
    zoom = style.points / FONT_SIZE
    if style.bare:
        Words.taken(spec)
    if style.inches is None:
        if style.label_points:
            _label(spec)
        return Printed(spec, svg_of(spec), words, zoom, None)
    target = style.inches * INCH / zoom
    if not style.bare and "vconcat" in spec:
        Words.taken(spec)
        words.put(spec, target)
    laid_out, drawn = _fitted(spec, target, labels=style.label_points)
    return Printed(laid_out, drawn, words, zoom * target / _size(drawn)[0], style.inches)


def _fitted(spec: View, target: float, *, labels: bool) -> tuple[View, str]:
    """Return a figure and its drawing, of a width as near to the target as can be."""
    body = _body(spec)
    panels = len(body.get("concat", ()))
    most = min(int(body.get("columns", 1)), max(panels, 1))
    narrowest = min((float(view["width"]) for view in _views(spec)), default=target)
    for columns in range(most, 0, -1):
        least = (BESIDE if columns > 1 else ALONE) / narrowest
        if columns > 1 and columns * BESIDE > target:
            continue
        factor, width = 0.8 * target / (columns * narrowest), 0.0
        before: tuple[float, float] | None = None
        for _ in range(6):
            factor = max(factor, least)
            trial = _laid_out(spec, columns, factor, target / columns, labels=labels)
            drawn = svg_of(trial)
            width, _ = _size(drawn)
            if abs(width - target) < 1.5 or (factor == least and width > target):
                break
            slope = columns * narrowest
            if before is not None and factor != before[0]:
                slope = max((width - before[1]) / (factor - before[0]), 0.3 * slope)
            before = factor, width
            factor += (target - width) / slope
        if width <= 1.02 * target or columns == 1:
            break
    return trial, drawn


def _laid_out(spec: View, columns: int, factor: float, cell: float, *, labels: bool) -> View:
    """Return a figure with so many panels side by side, drawings wider or narrower by a factor."""
    result = copy.deepcopy(spec)
    body = _body(result)
    if "concat" in body:
        body["columns"] = columns
    for view in _views(result):
        _resize(view, factor)
        fit_title(view, cell)
        fit_axis_titles(view)
        label_lines(result, view, 0.35 * cell)
        fit_legends(view)
        fit_names(view, 0.45 * cell)
    # Legends one below the other; below a narrow drawing they reach under its names.
    narrow = any(view["width"] < 0.5 * cell for view in _views(result))
    layout = {"direction": "vertical", "margin": 4, "anchor": "end" if narrow else "start"}
    result.setdefault("config", {}).setdefault("legend", {})["layout"] = {"bottom": layout}
    if labels:
        _label(result)
    return result


def _label(spec: View) -> None:
    placed = [label_points(spec, view) for view in _views(spec)]
    if not any(placed):
        raise SettingsError(
            "this figure has no points of models that could be labelled",
            hint="leave out --label-points; survey regress and survey timeline have such points",
        )


def _body(spec: View) -> View:
    """Return the drawing within a figure's frame."""
    inner: View = (spec.get("vconcat") or [spec])[0]
    return inner


def _views(spec: Any) -> Iterator[View]:
    """Yield the drawings of a figure that have a width of their own."""
    if isinstance(spec, list):
        for each in spec:
            yield from _views(each)
    elif isinstance(spec, dict):
        if isinstance(spec.get("width"), (int, float)) and ("layer" in spec or "mark" in spec):
            yield spec
        else:
            for name in ("vconcat", "hconcat", "concat", "spec"):
                yield from _views(spec.get(name))


def _resize(view: View, factor: float) -> None:
    """Make a drawing narrower or wider, with what is placed in it by pixels."""
    width, height = float(view["width"]), float(view.get("height", 200))
    new = factor * width
    if abs(width - height) < 1:
        tall = new
    else:
        tall = height * max(min(factor, 1.0), LOWEST) if _counts_up(view) else height
    view["width"], view["height"] = round(new, 1), round(tall, 1)
    if factor < LEGIBLE and "layer" in view and (columns := _cells(view)):
        view["layer"] = [each for each in view["layer"] if _fits(each, new / columns)]
    for layer in layers_of(view):
        mark, encoding = layer["mark"], layer.get("encoding", {})
        for name, old, size in (("x", width, new), ("y", height, tall)):
            _move(mark, name, old, size)
            for channel in (name, f"{name}2"):
                _move(encoding.get(channel), "value", old, size)


def _move(holder: Any, key: str, old: float, new: float) -> None:
    """Move a place in pixels within a drawing; one outside keeps its distance from the edge."""
    place = holder.get(key) if isinstance(holder, dict) else None
    if isinstance(place, (int, float)) and place >= 0:
        holder[key] = place * new / old if place <= old else place + new - old


def _axes(view: View, channel: str) -> list[View]:
    """Return a drawing's encodings of a channel that count along an axis."""
    found = [layer.get("encoding", {}).get(channel, {}) for layer in layers_of(view)]
    return [
        each
        for each in found
        if each.get("type") == "quantitative"
        and each.get("axis", {}) is not None
        and "labelExpr" not in (each.get("axis") or {})
    ]


def _counts_up(view: View) -> bool:
    return bool(_axes(view, "y"))


def _cells(view: View) -> int:
    """Return the number of columns of a table of cells; 0 where a drawing is none."""
    axes = (each.get("encoding", {}).get("x", {}) for each in layers_of(view) if _is_cell(each))
    return max((len(each.get("sort") or ()) for each in axes), default=0)


def _is_cell(layer: View) -> bool:
    across = layer.get("encoding", {}).get("x", {})
    return mark_of(layer) == "rect" and across.get("type") == "nominal"


def _fits(layer: View, cell: float) -> bool:
    """Return whether a layer has room in narrow cells: text of two words takes two lines."""
    text = layer.get("encoding", {}).get("text", {})
    if mark_of(layer) != "text":
        return True
    if cell < TWO_WORDS or text.get("type") != "nominal":
        return False
    # The first space alone; without an offset the first line would stand at the middle.
    broken = f"replace(datum['{text['field']}'], ' ', '\\n')"
    layer["transform"] = [{"calculate": broken, "as": text["field"]}]
    layer["mark"] |= {"lineBreak": "\n", "dy": -(LABEL_SIZE + 1) / 2}
    return True


def _set_range(spec: View, low: float, high: float) -> None:
    axes = [axis for view in _views(spec) for axis in _axes(view, "y")]
    if not axes:
        raise SettingsError(
            "this figure has no vertical axis of numbers, whose range could be set",
            hint="leave out --y-range",
        )
    for axis in axes:
        axis["scale"] = {**(axis.get("scale") or {}), "domain": [low, high], "nice": False}
        axis["scale"].pop("padding", None)
    for view in _views(spec):
        for layer in layers_of(view):
            if isinstance(layer["mark"], dict) and mark_of(layer) != "text":
                layer["mark"]["clip"] = True


def _size(drawn: str) -> tuple[float, float]:
    match = _SIZE.search(drawn)
    if match is None:
        raise FigureError("the figure cannot be drawn: it has no size")
    return float(match["width"]), float(match["height"])
