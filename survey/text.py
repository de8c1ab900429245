"""Text of counts, sizes and durations, and text of others made safe to show.

Names of files, sites, families and models are anybody's. ``printable`` makes text safe for
terminals, pages and drawings, ``harmless`` for spreadsheets too; JSON, Parquet and SQL keep names
as they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

_WHOLE = re.compile(r"[+-]?[0-9]{1,4000}")
_NUMBER = re.compile(
    r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?|nan)", re.IGNORECASE
)

#: Text that begins so is run by a spreadsheet, also where the sign is a wide one.
_FORMULA_BEGINNINGS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def printable(text: str) -> str:
    r"""Return a text in which everything can be seen, on one line.

    Control characters, line breaks, direction marks, other characters without a shape and those
    that are none become escapes, such as ``\x1b``, ``\n`` and ``\u202e``.

    Parameters
    ----------
    text : str
        Any text, such as a file's name.
    """
    if text.isprintable():
        return text
    return "".join(
        # Spaces of other widths have no shape, and do no harm.
        each if each.isprintable() or unicodedata.category(each) == "Zs" else _escaped(each)
        for each in text
    )


def printable_lines(text: str) -> str:
    """Return a text of several lines, each of them ``printable``."""
    return "\n".join(map(printable, text.split("\n")))


def shortened(text: str, most: int = 120) -> str:
    """Return a text with its first characters alone where it is long, ``printable``."""
    return printable(text if len(text) <= most else f"{text[:most]}...")


def first_names(names: Iterable[str], most: int = 4) -> str:
    """Return the first few of many names, such as ``a, b, ...``, each of them ``shortened``."""
    first = [shortened(name) for name in islice(names, most + 1)]
    return ", ".join(first[:most]) + (", ..." if len(first) > most else "")


#: Most lines of a kind that are written one by one.
MOST_LINES = 10


def first_lines(lines: Sequence[str], others: str) -> list[str]:
    """Return the first lines of many, and one that counts the others.

    Parameters
    ----------
    lines : sequence of str
        The lines.
    others : str
        What the last line says of the others after their number, such as ``more jobs are parked``.
    """
    more = len(lines) - MOST_LINES
    # One more line takes no more room than its count.
    if more <= 1:
        return list(lines)
    return [*lines[:MOST_LINES], f"{more} {others}"]


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message; of one without a message, its kind."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def number_in(text: str) -> int | float | None:
    """Return the number that a user's text is, such as ``-3`` or ``1e-4``; None for other text.

    Its digits are 0 to 9, without separators. It may be infinite, or ``nan``.
    """
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else None


def storable(text: str) -> str:
    """Return a text with what is not UTF-8 escaped: a name may hold any bytes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _escaped(character: str) -> str:
    # No codec: the process of a SQL query may open no file any more, and that of escapes is one.
    return repr(character)[1:-1]


def counted(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun, such as ``1 site``, ``3 families`` or ``1,200 rows``.

    Parameters
    ----------
    number : int
        How many.
    noun, nouns : str
        What, of one and of several; several have an s by default.
    """
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def format_bytes(size: int) -> str:
    """Return a size with three digits, such as ``97.8 MB``.

    Units are decimal (1 MB = 10^6 bytes) on disk, in memory and on the network alike: sizes of
    downloads and of disks are published so, and needs can be compared with what is free.

    Parameters
    ----------
    size : int
        Bytes.
    """
    if size < 1000:
        return counted(size, "byte")
    value = float(size)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.5:
            return f"{value:.3g} {unit}"
    return f"{value / 1000:.3g} TB"


def format_duration(seconds: float) -> str:
    """Return a duration, such as ``4.2 s``, ``70 s``, ``12 min`` or ``3.5 h``."""
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def harmless(value: Any) -> Any:
    """Return a table's cell: text printable, with an apostrophe where a spreadsheet would run it.

    Parameters
    ----------
    value : object
        A cell; what is no text, or the text of a number, is returned as it is.
    """
    if not isinstance(value, str):
        return value
    text = printable(value)
    runs = text.startswith(_FORMULA_BEGINNINGS) and number_in(text) is None
    return f"'{text}" if runs else text
