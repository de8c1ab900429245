"""Selections of runs in addresses of pages, by the names that questions of the API have."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qs, urlencode

from analysis.data.selection import Selection
from analysis.option_fields import addressed
from jobs.service.pages.options import option_names, option_values, options_in
from survey.errors import SettingsError, UnknownName

#: What else an address may name: runs, and a metric.
_OTHERS = ("run", "metric")


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
        If it holds a name that means nothing, or a value that its name does not allow.
    """
    known = (*option_names(Selection), *_OTHERS, *options)
    for name in set(parse_qs(query)) - set(known):
        unknown = UnknownName("parameter", name, known)
        raise SettingsError(unknown.message, hint=unknown.hint)
    return Selection(**option_values(Selection, options_in(query, Selection)))


def query_of(selection: Selection) -> str:
    """Return the part of an address that names a selection, always written alike."""
    given = {name: value for name, value in addressed(selection).items() if value}
    return urlencode(given, doseq=True)
