"""A drawing with its finding above and its caption below, as a file of its own.

A page's drawing has neither. Vega could place them, but would draw everything again and measure
every letter, which takes longer than the drawing itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as Xml

from analysis.figures.files.words import Words
from analysis.figures.theme import CAPTION_SIZE, FONT, NOTE_SIZE, TITLE_SIZE

#: The namespace of SVG.
SVG = "http://www.w3.org/2000/svg"

#: Margin around the text, and space between its lines, in pixels.
_MARGIN, _LEADING = 6, 4

#: Width of a character over the font's size, bold and plain, with room for wide ones.
_BOLD_WIDTH, _PLAIN_WIDTH = 0.6, 0.54


def framed(drawn: str, words: Words) -> str:
    """Return a drawing with its text.

    Parameters
    ----------
    drawn : str
        A whole SVG document, its size in pixels.
    words : Words
        The text above and below.

    Returns
    -------
    str
        A larger SVG document, an image labelled by its finding.
    """
    Xml.register_namespace("", SVG)
    inner = Xml.fromstring(drawn)  # noqa: S314 - drawn by this program, from text it escaped
    width, height = (float(inner.get(side, "0")) for side in ("width", "height"))
    above = [*_lines(words.finding, TITLE_SIZE, "#000000"), *_lines(words.note, NOTE_SIZE, "#333")]
    below = list(_lines(words.caption, CAPTION_SIZE, "#555555"))
    top, bottom = (sum(line.height for line in lines) + 2 * _MARGIN for lines in (above, below))
    whole = math.ceil(max(width, *(line.width for line in (*above, *below)), 0))
    tall = math.ceil(top + height + bottom)
    root = _element(None, "svg", width=whole, height=tall, viewBox=f"0 0 {whole} {tall}")
    root.set("role", "img")
    root.set("aria-label", " ".join(words.finding))
    _element(root, "rect", width=whole, height=tall, fill="white")
    _write(root, above, _MARGIN)
    _element(root, "g", transform=f"translate(0,{top:g})").extend(inner)
    _write(root, below, top + height)
    return Xml.tostring(root, encoding="unicode")


@dataclass(frozen=True, slots=True)
class _TextLine:
    text: str
    size: int
    colour: str

    @property
    def bold(self) -> bool:
        return self.size == TITLE_SIZE

    @property
    def height(self) -> float:
        return self.size + _LEADING

    @property
    def width(self) -> float:
        letter = _BOLD_WIDTH if self.bold else _PLAIN_WIDTH
        return 2 * _MARGIN + len(self.text) * self.size * letter


def _lines(texts: tuple[str, ...], size: int, colour: str) -> Iterator[_TextLine]:
    yield from (_TextLine(text, size, colour) for text in texts if text)


def _write(root: Xml.Element, lines: list[_TextLine], top: float) -> None:
    for line in lines:
        text = _element(
            root, "text", x=_MARGIN, y=f"{top + line.size:g}", fill=line.colour,
            **{"font-family": FONT, "font-size": f"{line.size}px"},
        )  # fmt: skip
        if line.bold:
            text.set("font-weight", "bold")
        text.text = line.text
        top += line.height


def _element(parent: Xml.Element | None, name: str, **values: Any) -> Xml.Element:
    text = {key: str(value) for key, value in values.items()}
    tag = f"{{{SVG}}}{name}"
    return Xml.Element(tag, text) if parent is None else Xml.SubElement(parent, tag, text)
