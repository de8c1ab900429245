"""Columns of the registry's tables, each with its sentence; moments keep their zone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    Integer,
    Text,
)
from sqlalchemy.types import TypeDecorator

from survey.column_fields import columns_of


class UtcDateTime(TypeDecorator[datetime]):
    """A moment in UTC, also where the database keeps no zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Store UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Give the zone back that SQLite drops."""
        if value is None or value.tzinfo is not None:
            return value
        return value.replace(tzinfo=UTC)


_TYPES: dict[str, Any] = {
    "VARCHAR": Text,
    "INTEGER": Integer,
    "BIGINT": BigInteger,
    "DOUBLE": Double,
    "TIMESTAMPTZ": UtcDateTime,
    "JSON": JSON,
}


def row_columns(row: type, options: Mapping[str, Mapping[str, bool]]) -> list[Column[Any]]:
    """Return the columns that a dataclass declares, with further options by name."""
    columns = [
        column(
            each.name,
            _TYPES[each.type],
            each.sentence,
            nullable=each.nullable,
            **options.get(each.name, {}),
        )
        for each in columns_of(row)
    ]
    # The key first, also where the class inherits other fields.
    return sorted(columns, key=lambda each: not each.primary_key)


def column(
    name: str, kind: Any, sentence: str, *keys: ForeignKey, nullable: bool = False, **options: Any
) -> Column[Any]:
    """Return a column; NULL is refused unless it is ``nullable``."""
    return Column(name, kind, *keys, nullable=nullable, comment=sentence, **options)
