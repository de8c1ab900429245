"""Options of a question in the address of its page, and the fields of a form that gives them."""

from __future__ import annotations

from dataclasses import Field
from functools import cache
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError, create_model

from analysis.option_fields import address_name, option_fields
from jobs.service.api.parameters import described, option_parameters
from survey.errors import SettingsError

#: Options by their names in addresses, with their texts.
Given = tuple[tuple[str, str], ...]


class OptionField(NamedTuple):
    """A field of a form that gives an option."""

    name: str
    help: str
    kind: Literal["checkbox", "number", "select", "text"]
    #: Texts that were given, or a free one.
    texts: list[str]
    #: What it is by default, where that is a value.
    default: str
    choices: tuple[str, ...]
    minimum: float | None
    maximum: float | None
    #: What numbers are multiples of.
    step: Literal["1", "any"]


def option_names(declaration: type) -> list[str]:
    """Return the names that the options of a dataclass have in addresses."""
    return [address_name(option) for option, _ in _options(declaration)]


def options_in(query: str, declaration: type) -> Given:
    """Return the options of a dataclass that an address has behind its question mark.

    Addresses that mean the same give the same: in order of declaration, without defaults.
    """
    given, pairs = list[tuple[str, str]](), tuple(parse_qsl(query))
    for option, _ in _options(declaration):
        name = address_name(option)
        texts = _texts(name, pairs)
        kept = dict.fromkeys(texts) if option.metadata["repeated"] else texts[-1:]
        given += [(name, text) for text in kept if text != _default(option)]
    return tuple(given)


def option_values(declaration: type, given: Given) -> dict[str, Any]:
    """Return the values of options, by the names of their fields.

    Raises
    ------
    SettingsError
        If a text stands for no value of its option.
    """
    texts: dict[str, Any] = dict(given)
    for option, _ in _options(declaration):
        if option.metadata["repeated"] and (name := address_name(option)) in texts:
            texts[name] = _texts(name, given)
    try:
        model = _model(declaration).model_validate(texts)
    except ValidationError as invalid:
        wrong = invalid.errors()[0]
        raise SettingsError(f"the option {wrong['loc'][0]}: {wrong['msg']}") from None
    return model.model_dump(exclude_unset=True)


@cache
def _model(declaration: type) -> type[BaseModel]:
    return create_model(declaration.__name__, **option_parameters(declaration))


def option_form(declaration: type, given: Given) -> list[OptionField]:
    """Return the fields of a form of all options of a dataclass, filled in with those given."""
    return [_field(option, kind, given) for option, kind in _options(declaration)]


def _options(declaration: type) -> list[tuple[Field[Any], Any]]:
    """Return the options that a form can give, with their types: all but several in order."""
    hints = get_type_hints(declaration)
    options = [(each, _without_none(hints[each.name])) for each in option_fields(declaration)]
    return [(option, kind) for option, kind in options if get_origin(kind) is not tuple]


def _without_none(hint: Any) -> Any:
    kinds = get_args(hint)
    return kinds[0] if type(None) in kinds else hint


def _field(option: Field[Any], kind: Any, given: Given) -> OptionField:
    details, name = option.metadata, address_name(option)
    texts = _texts(name, given)
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    kinds: dict[Any, Any] = {bool: "checkbox", int: "number", float: "number"}
    return OptionField(
        name,
        described(option),
        "select" if choices else kinds.get(kind, "text"),
        [*texts, ""] if details["repeated"] else texts[-1:] or [""],
        _default(option),
        choices,
        details["minimum"],
        details["maximum"],
        "1" if kind is int else "any",
    )


def _default(option: Field[Any]) -> str:
    """Return what an option is by default, where that is a value."""
    none = option.metadata["repeated"] or option.default is None
    return "" if none else str(option.default)


def _texts(name: str, given: Given) -> list[str]:
    return [text for each, text in given if each == name]
