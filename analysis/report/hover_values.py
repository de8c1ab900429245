"""Values of marks in a page's drawings, shown while the pointer is over one, without a script."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as Xml

from analysis.figures.files.vega import View
from analysis.report.standalone_svg import SVG
from analysis.text import spaced

#: Rows up to which the marks of a figure name their values: of more, a page would grow too large.
MOST_ROWS = 1000


def describe_marks(spec: View) -> None:
    """Let each mark of a specification that has a tooltip describe itself by its values."""
    if sum(map(len, spec.get("datasets", {}).values())) > MOST_ROWS:
        return
    for view in _views(spec):
        shown = view.get("encoding", {}).get("tooltip")
        if "mark" in view and isinstance(shown, list):
            mark = view["mark"] if isinstance(view["mark"], dict) else {"type": view["mark"]}
            text = " + '; ' + ".join(map(_text, shown))
            view["mark"] = {**mark, "aria": True, "description": {"expr": text}}


def title_mark(mark: Xml.Element) -> None:
    """Give an element of a drawing that describes itself a title, which browsers show."""
    label = mark.get("aria-label")
    if label and mark.tag == f"{{{SVG}}}path":
        Xml.SubElement(mark, f"{{{SVG}}}title").text = label


def _text(shown: dict[str, Any]) -> str:
    """Return the Vega expression of a field's name and value."""
    value = f"datum[{json.dumps(shown['field'])}]"
    name = json.dumps(f"{spaced(shown.get('title') or shown['field'])}: ")
    number = f"format({value}, '.4~g')" if shown["type"] == "quantitative" else value
    return f"{name} + (isValid({value}) ? {number} : 'none')"


def _views(view: View) -> Iterator[View]:
    yield view
    for name in ("layer", "vconcat", "hconcat", "concat"):
        for each in view.get(name, ()):
            yield from _views(each)
    if "spec" in view:
        yield from _views(view["spec"])
