"""Arguments of a user's function in the name of its network: ``nets:make_net?depth=3&width=64``.

They are whole numbers, numbers, ``true``, ``false`` and text. A name has one form: its arguments in
alphabetical order, each value as it is written here.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote, unquote

from survey.errors import CatalogError
from survey.text import number_in

#: A value that an argument may have.
Argument = bool | int | float | str

_TRUTH = {"true": True, "True": True, "false": False, "False": False}
_QUOTED = re.compile(r'"[^"]*"')
#: What text may hold as it is; the rest is written as in addresses, as %20.
_PLAIN = "/:,+@()[]"


def with_arguments(name: str, values: Mapping[str, Sequence[Argument]]) -> Iterator[str]:
    """Yield a name with each combination of the values of its arguments; as it is without any.

    Parameters
    ----------
    name : str
        A network's name, which may have arguments itself.
    values : mapping of str to sequence
        The values of each further argument.

    Raises
    ------
    CatalogError
        If the name takes no arguments, has one of these already, or one has no value.
    """
    if not values:
        yield name
        return
    if not name.startswith("python:"):
        raise CatalogError(
            f"{name} takes no arguments (args), which only functions of python:MODULE:FUNCTION do",
            hint="leave args out",
        )
    function, given = parse_name(name)
    for argument, several in values.items():
        if argument in given or not several:
            what = "is in the name already" if argument in given else "has no value"
            raise CatalogError(f"argument {argument!r} of {name} {what}", hint="mend args")
    for chosen in itertools.product(*values.values()):
        yield written_name(function, {**given, **dict(zip(values, chosen, strict=True))})


def parse_name(name: str) -> tuple[str, dict[str, Argument]]:
    """Return a function's name without its arguments, and these.

    Raises
    ------
    CatalogError
        If an argument has no value, is no name of Python, or is there twice.
    """
    function, separator, listed = name.partition("?")
    arguments: dict[str, Argument] = {}
    for each in listed.split("&") if separator else ():
        argument, equals, value = each.partition("=")
        if not equals or not argument.isidentifier() or argument in arguments:
            what = "is there twice" if argument in arguments else "must be written NAME=VALUE"
            raise CatalogError(
                f"the argument {each!r} of {name} {what}",
                hint=f"write such as {function}?width=64&depth=3",
            )
        arguments[argument] = _value(value)
    return function, arguments


def written_name(function: str, arguments: Mapping[str, Argument]) -> str:
    """Return a function's name with its arguments, in the one form that such a name has."""
    listed = "&".join(f"{name}={_written(arguments[name])}" for name in sorted(arguments))
    return f"{function}?{listed}" if listed else function


def _value(text: str) -> Argument:
    if text in _TRUTH:
        return _TRUTH[text]
    number = number_in(text)
    if number is not None and (isinstance(number, int) or math.isfinite(number)):
        return number
    return unquote(text[1:-1] if _QUOTED.fullmatch(text) else text)


def _written(value: Argument) -> str:
    if not isinstance(value, str):
        return str(value).lower()
    text = quote(value, safe=_PLAIN)
    # In quotes, text that looks like a number stays text.
    return text if isinstance(_value(text), str) else f'"{text}"'
