"""Words of pages: sentences."""

from __future__ import annotations


def sentence(text: str) -> str:
    """Return a text with a full stop behind it."""
    return text if text.endswith((".", "?", "!")) else f"{text}."
