"""Words that every room says alike: a number with its noun."""

from __future__ import annotations

from typing import Any


def counted(number: int, noun: str, nouns: str = "") -> str:
    """Return a number of things, such as ``1 site``, ``3 families`` or ``1,200 rows``.

    Parameters
    ----------
    number : int
        How many.
    noun, nouns : str
        What, of one and of several; several have an s by default.
    """
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


#: What a cell begins with that a spreadsheet computes, or passes over to find such a beginning.
BEGINNINGS = ("=", "+", "-", "@", "\t", "\r", "\n")


def harmless(value: Any) -> Any:
    """Return a cell with an apostrophe before it where a spreadsheet would run it.

    Parameters
    ----------
    value : object
        A cell; what is no text, or the text of a number, is returned as it is.
    """
    if isinstance(value, str) and value.startswith(BEGINNINGS) and not _number(value):
        return f"'{value}"
    return value


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()
