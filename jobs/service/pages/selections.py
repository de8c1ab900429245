"""Selections of runs in addresses, by the names that the command line's options have."""

from __future__ import annotations

from urllib.parse import parse_qs, urlencode

from analysis.data.selection import Selection
from analysis.option_fields import option_fields

#: The fields of a selection that hold globs, by their names in addresses.
GLOBS = {
    each.metadata["flags"][0].removeprefix("--"): each.name
    for each in option_fields(Selection)
    if each.metadata["repeated"]
}


def selection_of(query: str) -> Selection:
    """Return the selection that the part of an address behind its question mark names."""
    given = parse_qs(query)
    globs = {field: tuple(given[name]) for name, field in GLOBS.items() if name in given}
    return Selection(**globs, untrained="untrained" in given)  # type: ignore[arg-type]


def query_of(selection: Selection) -> str:
    """Return the part of an address that names a selection, always written alike."""
    names = {field: name for name, field in GLOBS.items()}
    pairs = [(names[field], glob) for field, globs in selection.filters.items() for glob in globs]
    return urlencode([*pairs, *([("untrained", "1")] if selection.untrained else [])])
