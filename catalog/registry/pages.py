"""Pages of the registry's tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import JSON, BigInteger, Double, Integer, RowMapping, Select, Table

from catalog.home import Home
from catalog.paging import Listed, PageRequest, facet_statement, page_statement, rank_of
from catalog.registry.columns import UtcDateTime
from catalog.registry.database import Database
from survey.column_fields import Column

if TYPE_CHECKING:
    import pyarrow as pa

#: The SQL types of a registry's columns, and JSON.
_TYPES: Mapping[type, str] = {
    BigInteger: "BIGINT",
    Integer: "BIGINT",
    Double: "DOUBLE",
    JSON: "JSON",
    UtcDateTime: "TIMESTAMPTZ",
}


@dataclass(frozen=True, slots=True)
class RegistryRows(Listed):
    """The rows of a table of the registry."""

    table: Table

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that the table declares."""
        return tuple(
            Column(each.name, _TYPES.get(type(each.type), "VARCHAR"), each.comment or "")
            for each in self.table.c
        )

    def page(self, home: Home, request: PageRequest) -> pa.Table:
        """Return a page; see ``Listed``. JSON is text."""
        shown = dict(self.table.c.items())
        types = {each.name: each.type for each in self.columns}
        kinds = {name: types[name] for name in request.fields}
        kinds |= {rank_of(n): types[n] for n in (each.removeprefix("-") for each in request.order)}
        return _arrow(_rows(home, page_statement(self.table, shown, request)), kinds)

    def facet(self, home: Home, request: PageRequest, by: str) -> pa.Table:
        """Return the values of a column; see ``Listed``."""
        shown = dict(self.table.c.items())
        (kind,) = (each.type for each in self.columns if each.name == by)
        kinds = {"value": kind, "count": "BIGINT"}
        return _arrow(_rows(home, facet_statement(self.table, shown, request, by)), kinds)


def _rows(home: Home, statement: Select[Any]) -> Sequence[RowMapping]:
    database = Database(home)
    try:
        with database.transaction() as connection:
            return connection.execute(statement).mappings().all()
    finally:
        database.close()


def _arrow(rows: Sequence[RowMapping], kinds: Mapping[str, str]) -> pa.Table:
    import pyarrow as pa

    from catalog.arrow_arrays import table_of

    types = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "TIMESTAMPTZ": pa.timestamp("us", "UTC")}
    schema = pa.schema([(name, types.get(kind, pa.string())) for name, kind in kinds.items()])
    as_json = {name for name, kind in kinds.items() if kind == "JSON"}
    values = [
        {name: json.dumps(row[name]) if name in as_json else row[name] for name in kinds}
        for row in rows
    ]
    return table_of(values, schema)
