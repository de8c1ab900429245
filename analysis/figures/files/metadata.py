"""Metadata of figures' files: title, description and provenance in SVG, PNG and PDF."""

from __future__ import annotations

import html
import re
import zlib

from analysis.figures.files.words import Words
from survey import __version__

#: The object that a PDF's trailer names as its information, and the place of its cross-references.
_TRAILER = re.compile(
    rb"trailer\s*<<\s*/Size (\d+)\s*/Root (\d+ 0 R)\s*/Info (\d+) 0 R.*?>>\s*startxref\s*(\d+)",
    re.DOTALL,
)

#: Bytes of a PNG's signature and of its first chunk, behind which others may stand.
_HEADER = 33

_MAKER = f"model-zoo survey {__version__}"


def with_svg_metadata(drawn: str, words: Words) -> str:
    """Return an SVG named by its finding for screen readers, with its provenance as metadata."""
    begin, rest = drawn.split(">", 1)
    name, caption = html.escape(words.label), html.escape(words.texts[2])
    if not name:
        return f"{begin}>{rest}"
    about = f"<title>{name}</title>"
    about += f"<metadata>{caption}</metadata>" if caption else ""
    return f'{begin} role="img" aria-label="{name}">{about}{rest}'


def with_png_metadata(drawn: bytes, words: Words) -> bytes:
    """Return a PNG with its text in chunks: Title, Description, Source and Software."""
    finding, note, caption = words.texts
    facts = {"Title": finding, "Description": note, "Source": caption, "Software": _MAKER}
    chunks = (_chunk(name, text) for name, text in facts.items() if text)
    return b"".join((drawn[:_HEADER], *chunks, drawn[_HEADER:]))


def _chunk(name: str, text: str) -> bytes:
    """Return a chunk of international text, neither compressed nor translated."""
    body = b"iTXt" + name.encode("ascii") + b"\0\0\0\0\0" + text.encode()
    return (len(body) - 4).to_bytes(4) + body + zlib.crc32(body).to_bytes(4)


def with_pdf_metadata(drawn: bytes, words: Words) -> bytes:
    """Return a PDF with its text as Title, Subject and Keywords.

    An incremental update: the information is replaced by a later object, nothing else changes.
    """
    match = _TRAILER.search(drawn)
    if match is None:
        return drawn
    size, root, number, place = (each.decode() for each in match.groups())
    finding, note, caption = words.texts
    facts = {"Title": finding, "Subject": note, "Keywords": caption, "Creator": _MAKER}
    entries = "".join(f"/{name} <{_hex(text)}> " for name, text in facts.items() if text)
    start = len(drawn) + 1
    added = f"\n{number} 0 obj\n<< {entries}>>\nendobj\n"
    table = f"xref\n{number} 1\n{start:010d} 00000 n\r\n"
    trailer = f"trailer\n<< /Size {size} /Root {root} /Info {number} 0 R /Prev {place} >>\n"
    end = f"startxref\n{len(drawn) + len(added)}\n%%EOF\n"
    return drawn + (added + table + trailer + end).encode("ascii")


def _hex(text: str) -> str:
    """Return a text as the digits of a PDF's string of UTF-16."""
    return "FEFF" + text.encode("utf-16-be").hex().upper()
