"""Figures of ``analysis.figures`` as SVG elements of a page, which need no script.

A figure's finding, note and caption leave the drawing and become text of the page; each choice of
depth becomes a drawing; identifiers are made unique within the page; a drawing becomes one image
with a label for screen readers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from xml.etree import ElementTree as Xml

from altair.utils.schemapi import debug_mode

from analysis.figures.export import csv_text
from analysis.figures.files.vega import compiled_of, specification, svg_of_compiled
from analysis.figures.files.words import Words
from analysis.report.elements import Exhibit
from analysis.report.folder import Write
from analysis.report.hover_values import describe_marks, title_mark
from analysis.report.standalone_svg import SVG, framed
from survey.errors import FigureError

#: The parameter of a figure that chooses its horizontal axis.
_DEPTH = "depth_axis"

#: How much larger a drawing is in a page than in print, for which its letters are made.
ENLARGED = 1.2

#: Width in pixels up to which a drawing is made as narrow as a phone, not scrolled.
SMALL = 480

_REFERENCE = re.compile(r"url\(#([^)]+)\)")

#: Identifiers and what points at them: what stands before, the name, and the name without number.
_COUNTED = re.compile(r"""( id="|url\(#|href="#)(([a-z_]+)[0-9]+)(?=[")])""")


@dataclass(frozen=True, slots=True)
class PageDrawing:
    """One drawing of a figure, ready for a page."""

    #: Unique in its page.
    name: str
    #: The choice of depth; empty where it is the only drawing.
    label: str
    #: The element; empty where a file is in its place.
    svg: str
    #: What it shows, for screen readers.
    text: str
    #: That file.
    file: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """An exhibit as a template takes it."""

    name: str
    finding: str
    note: str
    caption: str
    drawings: tuple[PageDrawing, ...]
    sql: str
    sql_gives: str

    @property
    def letters(self) -> int:
        """The letters of the drawings that the page holds."""
        return sum(len(drawing.svg) for drawing in self.drawings)


def drawn(
    exhibits: Sequence[Exhibit], write: Write, *, data: bool = True, room: float = math.inf
) -> tuple[list[Shown], list[tuple[str, str]]]:
    """Return exhibits as drawn, and the name of each that cannot be drawn with the reason.

    Parameters
    ----------
    exhibits : sequence of Exhibit
        Those of a page.
    write : callable
        Writes a file of the report: the drawings.
    data : bool
        Whether to write the figures' data and SQL too.
    room : float
        Letters of drawings that the page holds; those beyond are files beside it.
    """
    results: list[Shown] = []
    undrawn: list[tuple[str, str]] = []
    for each in exhibits:
        try:
            exhibit = _within(shown(each, write), room, write)
        except FigureError as problem:
            undrawn.append((each.name, problem.message))
            continue
        results.append(exhibit)
        room -= exhibit.letters
        if data:
            write_data(each, write)
    return results, undrawn


def _within(exhibit: Shown, room: float, write: Write) -> Shown:
    """Return an exhibit whose drawings are files where a page has too little room for them."""
    if exhibit.letters <= room:
        return exhibit
    drawings = []
    for drawing in exhibit.drawings:
        file = f"figures/{drawing.name}-drawing.svg"
        write(file, drawing.svg)
        drawings.append(replace(drawing, svg="", file=file))
    return replace(exhibit, drawings=tuple(drawings))


def shown(exhibit: Exhibit, write: Write) -> Shown:
    """Draw an exhibit and write its drawing.

    Parameters
    ----------
    exhibit : Exhibit
        What to show.
    write : callable
        Writes a file of the report.
    """
    # Figures of this package are valid; a validation of each takes as long as making it.
    with debug_mode(False):
        spec = specification(exhibit.chart(), validate=False)
    words = Words.taken(spec)
    describe_marks(spec)
    drawings = _drawn_each(spec)
    write(f"figures/{exhibit.name}.svg", framed(next(iter(drawings.values())), words))
    finding, note, caption = words.texts
    inline = tuple(_drawings(drawings, exhibit.name, words.label))
    return Shown(exhibit.name, finding, note, caption, inline, exhibit.sql, exhibit.sql_gives)


def write_data(exhibit: Exhibit, write: Write) -> None:
    """Write the data and the SQL of an exhibit."""
    write(f"data/{exhibit.name}.csv", csv_text(exhibit.rows()))
    write(f"data/{exhibit.name}.sql", exhibit.sql)


def _drawn_each(spec: dict[str, Any]) -> dict[str, str]:
    """Return a figure's drawings by the choice of depth; the only one by an empty text."""
    compiled = compiled_of(spec)
    chosen = (each for each in compiled.get("signals", ()) if each["name"] == _DEPTH)
    drawings = {}
    for signal in chosen:
        for choice in signal.get("bind", {}).get("options", ()):
            signal["value"] = choice
            drawings[choice] = _drawn(compiled)
    return drawings or {"": _drawn(compiled)}


def _drawings(drawn: dict[str, str], name: str, text: str) -> Iterator[PageDrawing]:
    for place, (choice, svg) in enumerate(drawn.items()):
        one = f"{name}-{place}" if choice else name
        line = f"{text} Over {choice}." if choice else text
        yield PageDrawing(one, choice, embedded(svg, one, line), line)


def _drawn(compiled: dict[str, Any]) -> str:
    """Return a figure's SVG, its identifiers numbered from 0: Vega counts over all drawings."""
    drawn = svg_of_compiled(compiled)
    names: dict[str, str] = {}
    return _COUNTED.sub(
        lambda result: result[1] + names.setdefault(result[2], f"{result[3]}{len(names)}"), drawn
    )


def embedded(drawn: str, name: str, text: str) -> str:
    """Return a drawing as an element of a page.

    Parameters
    ----------
    drawn : str
        A whole SVG document.
    name : str
        The beginning of its identifiers; unique in the page.
    text : str
        The label for screen readers.

    Returns
    -------
    str
        One ``svg`` element with the role of an image.
    """
    Xml.register_namespace("", SVG)
    root = Xml.fromstring(drawn)  # noqa: S314 - drawn by this program, from text it escaped
    for element in list(root.iter()):
        title_mark(element)
        _point_within(element, name)
        for spoken in ("role", "aria-hidden", "aria-label", "aria-roledescription"):
            element.attrib.pop(spoken, None)
    for side in ("width", "height"):
        root.set(side, f"{ENLARGED * float(root.get(side, '0')):.0f}")
    if float(root.get("width", "0")) <= SMALL:
        root.set("class", "small")
    root.set("role", "img")
    root.set("aria-label", text)
    return Xml.tostring(root, encoding="unicode")


def _point_within(element: Xml.Element, name: str) -> None:
    """Make identifiers and what points at them those of this drawing alone."""
    for key, value in element.attrib.items():
        if key == "id":
            element.set(key, f"{name}-{value}")
        elif "url(#" in value:
            element.set(key, _REFERENCE.sub(rf"url(#{name}-\1)", value))
        elif key.endswith("href") and value.startswith("#"):
            element.set(key, f"#{name}-{value[1:]}")
