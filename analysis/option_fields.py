"""Options, declared as fields of a dataclass or defaults of a verb: what each means, its default.

The command line makes its options of them, and a service can make its parameters of them.
"""

from __future__ import annotations

from dataclasses import Field, field, fields
from typing import Any

#: The largest seed that all generators of random numbers take.
LARGEST_SEED = 2**32 - 1


def option(  # noqa: PLR0913 - what an option is
    default: Any,
    help: str,  # noqa: A002
    *,
    none: str = "",
    flags: tuple[str, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    metavar: str | None = None,
    positional: bool = False,
    repeated: bool = False,
) -> Any:
    """Return an option: a field of a dataclass, or the default of a verb's parameter.

    Parameters
    ----------
    default : object
        Its default; an ellipsis where it must be given.
    help : str
        What it means.
    none : str
        What a default that is no value stands for, such as ``the silhouette decides``.
    flags : tuple of str
        Its spellings on the command line; ``--name`` by default.
    minimum : float, optional
        The smallest number that may be given.
    maximum : float, optional
        The largest; a service takes numbers from anyone.
    metavar : str, optional
        What stands for its value in usage lines.
    positional : bool
        Whether the command line takes it by its place.
    repeated : bool
        Whether it may be given several times.
    """
    metadata = {
        "help": help, "none": none, "flags": flags, "minimum": minimum, "maximum": maximum,
        "metavar": metavar, "positional": positional, "repeated": repeated,
    }  # fmt: skip
    return field(default=default, metadata=metadata)


def option_fields(declaration: Any) -> tuple[Field[Any], ...]:
    """Return the fields of a dataclass, or of an instance, that are options."""
    return tuple(each for each in fields(declaration) if "help" in each.metadata)


def given_flags(options: Any, declaration: Any = None) -> list[str]:
    """Return the flags of the options of a dataclass that differ from their defaults.

    Parameters
    ----------
    options : dataclass instance
        The values.
    declaration : dataclass, optional
        The options that are meant, by default all of the instance.
    """
    given = (
        each
        for each in option_fields(declaration or options)
        if getattr(options, each.name) != each.default
    )
    # A flag that is on by default can only be switched off.
    names = ((address_name(each), "no-" if each.default is True else "") for each in given)
    return [f"--{off}{name.replace('_', '-')}" for name, off in names]


def address_name(option: Field[Any]) -> str:
    """Return the name that an option of the command line has in addresses."""
    details = option.metadata
    flags = [flag for flag in details["flags"] if flag.startswith("--")]
    # What the command line takes by its place could have the name of a filter.
    named = "of" if details["positional"] else flags[0] if flags else option.name
    return named.removeprefix("--").replace("-", "_")


def addressed(options: Any) -> dict[str, Any]:
    """Return the options of a dataclass that have a value, by their names in addresses."""
    given = {address_name(each): getattr(options, each.name) for each in option_fields(options)}
    return {name: value for name, value in given.items() if value not in (None, ())}
