"""Text in CSV that no spreadsheet runs: names of models and files are anybody's.

Owns which cells a spreadsheet takes for a formula, and what is done about them. Numbers are not
text, and are left as they are.

References
----------
OWASP, "CSV Injection", https://owasp.org/www-community/attacks/CSV_Injection
"""

from __future__ import annotations

from typing import Any

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
