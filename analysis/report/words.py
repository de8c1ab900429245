"""Words of pages: numbers with their nouns, and sentences."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun.

    Parameters
    ----------
    number : int
        How many.
    one, many : str
        The noun for one and for several; by default with an s.
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def sentence(text: str) -> str:
    """Return a text with a full stop behind it."""
    return text if text.endswith((".", "?", "!")) else f"{text}."
