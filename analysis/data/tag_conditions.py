"""Conditions on tags, such as ``epoch>=30``: which runs a selection takes.

Equal values of one tag are alternatives; conditions on several tags, and bounds, must all hold.
"""

from __future__ import annotations

import math
import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from catalog.tags import Tags, TagValue, checked_name, parsed_value
from survey.errors import SettingsError
from survey.text import shortened

#: How a tag is named where a column is.
PREFIX = "tags."

_BOUNDS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

_PARTS = re.compile(r"(?P<name>[^<>=!]*)(?P<sign><=|>=|!=|=|<|>|$)(?P<text>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TagCondition:
    """A condition on one tag."""

    name: str
    #: Empty where any value will do.
    sign: str
    #: What is behind the sign.
    text: str

    def holds(self, tags: Tags) -> bool:
        """Return whether a run with these tags fits."""
        if self.name not in tags:
            return False
        value = tags[self.name]
        if not self.sign:
            return True
        if self.sign in _BOUNDS:
            return is_number(value) and _BOUNDS[self.sign](value, parsed_value(self.text))
        return self._equals(value) == (self.sign == "=")

    def _equals(self, value: TagValue) -> bool:
        """Return whether a value is that of the condition: numbers as numbers, text by a glob."""
        if isinstance(value, str):
            wanted = parsed_value(self.text) if self.text.startswith('"') else self.text
            return fnmatchcase(value.casefold(), str(wanted).casefold())
        wanted = parsed_value(self.text)
        return isinstance(wanted, bool) == isinstance(value, bool) and wanted == value


def parsed_condition(text: str) -> TagCondition:
    """Return the condition that a text such as ``epoch``, ``lr=0.1`` or ``epoch>=30`` means.

    Raises
    ------
    SettingsError
        If it is none.
    """
    parts = _PARTS.fullmatch(text)
    name, sign, value = (each.strip() for each in parts.groups()) if parts else ("", "", "")
    condition = TagCondition(checked_name(name.removeprefix(PREFIX)), sign, value)
    if sign and not value:
        raise SettingsError(
            f"the tag {shortened(repr(text))} has nothing behind {sign}",
            hint=f"write {name}{sign}value, or {name} alone for any value",
        )
    if sign in _BOUNDS and not is_number(parsed_value(value)):
        raise SettingsError(f"the tag {shortened(repr(text))} must have a number behind {sign}")
    return condition


def all_hold(conditions: Iterable[str], tags: Tags) -> bool:
    """Return whether a run's tags fit: one of the equal values of each tag, and all other bounds.

    Parameters
    ----------
    conditions : iterable of str
        What ``parsed_condition`` takes.
    tags : mapping of str to TagValue
        The tags of a run.
    """
    alternatives: defaultdict[Any, list[bool]] = defaultdict(list)
    for text in conditions:
        condition = parsed_condition(text)
        key = condition.name if condition.sign == "=" else condition
        alternatives[key].append(condition.holds(tags))
    return all(map(any, alternatives.values()))


def is_number(value: object) -> bool:
    """Return whether a tag can have this number; a truth value is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
