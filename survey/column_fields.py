"""Dataclass fields that declare the columns of a table."""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass
from typing import Any

#: The SQL type of a Python type, where a field names no other.
_TYPES = {"str": "VARCHAR", "int": "INTEGER", "float": "DOUBLE", "datetime": "TIMESTAMPTZ"}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table or view."""

    #: Its name in SQL.
    name: str
    #: Its SQL type, such as ``VARCHAR`` or ``VARCHAR[]``.
    type: str
    #: What it means, in a sentence.
    sentence: str
    #: Whether its field may be None.
    nullable: bool = True


def column(sentence: str, sql: str | None = None, **default: Any) -> Any:
    """Return a dataclass field that is stored as a column.

    Parameters
    ----------
    sentence : str
        What the column means.
    sql : str, optional
        Its SQL type; by default that of the annotation.
    **default
        ``default`` of the field, if it has one.
    """
    return dataclasses.field(metadata={"sentence": sentence, "sql": sql}, **default)


def optional(sentence: str, sql: str | None = None) -> Any:
    """Return a column that is None unless a value is given; see ``column``."""
    return column(sentence, sql, default=None)


def nested(**default: Any) -> Any:
    """Return a dataclass field that is no column, such as a nested row."""
    return dataclasses.field(**default)


def columns_of(row: type) -> tuple[Column, ...]:
    """Return the columns that a dataclass declares, in the order of its fields."""
    hints = typing.get_type_hints(row)
    return tuple(
        Column(
            field.name,
            field.metadata["sql"] or _sql_type(hints[field.name]),
            field.metadata["sentence"],
            types.NoneType in typing.get_args(hints[field.name]),
        )
        for field in dataclasses.fields(row)
        if field.metadata
    )


def _sql_type(hint: Any) -> str:
    if types.NoneType in typing.get_args(hint):
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) is tuple:
        return f"{_sql_type(typing.get_args(hint)[0])}[]"
    return _TYPES["str" if typing.get_origin(hint) is typing.Literal else hint.__name__]
