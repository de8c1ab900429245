"""Text of counts, sizes and durations, and cells that are safe in a spreadsheet."""

from __future__ import annotations

from typing import Any

#: Text that begins so is run by a spreadsheet, or skipped to look for such a beginning.
_FORMULA_BEGINNINGS = ("=", "+", "-", "@", "\t", "\r", "\n")


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
    """Return a table's cell, with an apostrophe before text that a spreadsheet would run.

    Parameters
    ----------
    value : object
        A cell; what is no text, or the text of a number, is returned as it is.
    """
    if isinstance(value, str) and value.startswith(_FORMULA_BEGINNINGS) and not _is_number(value):
        return f"'{value}"
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()
