"""Words that every room says alike: a number with its noun."""

from __future__ import annotations


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
