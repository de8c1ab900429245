"""Selections of runs in addresses of pages, by the names that questions of the API have."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qs, urlencode

from analysis.data.selection import Selection
from analysis.option_fields import address_name, option_fields
from survey.errors import SettingsError, UnknownName

#: The fields of a selection that hold globs, by their names in addresses.
GLOBS = {
    address_name(each): each.name for each in option_fields(Selection) if each.metadata["repeated"]
}

#: What else an address may name: random weights too, runs, and a metric.
_OTHERS = ("untrained", "run", "metric")


def selection_of(query: str, options: Iterable[str] = ()) -> Selection:
    """Return the selection that the part of an address behind its question mark names.

    Parameters
    ----------
    query : str
        That part.
    options : iterable of str
        What else it may name.

    Raises
    ------
    SettingsError
        If it holds a name that means nothing.
    """
    given, known = parse_qs(query), (*GLOBS, *_OTHERS, *options)
    for name in set(given) - set(known):
        unknown = UnknownName("parameter", name, known)
        raise SettingsError(unknown.message, hint=unknown.hint)
    globs = {field: tuple(given[name]) for name, field in GLOBS.items() if name in given}
    return Selection(**globs, untrained="untrained" in given)  # type: ignore[arg-type]


def query_of(selection: Selection) -> str:
    """Return the part of an address that names a selection, always written alike."""
    names = {field: name for name, field in GLOBS.items()}
    pairs = [(names[field], glob) for field, globs in selection.filters.items() for glob in globs]
    return urlencode([*pairs, *([("untrained", "1")] if selection.untrained else [])])
