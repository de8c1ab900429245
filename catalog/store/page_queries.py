"""Queries of pages of any relation."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import duckdb
from sqlalchemy import BigInteger, Double, Select, Text, column, func, table
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.sql.type_api import TypeEngine

from catalog.paging import Filter, PageRequest, Shown, page_statement
from catalog.store.schema import Relation, View

if TYPE_CHECKING:
    import pyarrow as pa

#: Columns that may name files and folders.
_NAMED = ("checkpoint", "dataset", "reported_dataset")

#: The folders in `file:/folder/name.pth[:10]`, but not those of a URL.
_FOLDERS = r"^(?:(file|folder|parquet):|(\w+):(?:~/|\.{1,2}/|/[^/\[]))[^\[]*/"

#: Decimals by which numbers that are computed are ordered.
DECIMALS = 9

#: One for all statements: what it finds out about types, it keeps.
_DIALECT = DefaultDialect(paramstyle="numeric_dollar")

_TYPES: dict[str, type[TypeEngine[Any]]] = {"VARCHAR": Text, "DOUBLE": Double}
_TYPES |= {"INTEGER": BigInteger, "BIGINT": BigInteger}


def page_of(
    connection: duckdb.DuckDBPyConnection, relation: Relation, request: PageRequest
) -> pa.Table:
    """Return a page of a relation."""
    rows, shown = source(relation)
    ranks = _ranks(relation, shown, request)
    return result(connection, page_statement(rows, shown, request, ranks))


def _ranks(relation: Relation, shown: Shown, request: PageRequest) -> Shown:
    """Return what numbers computed from many are ordered by, where a page is ordered by them.

    Their last digits depend on the order of the sum, which differs from one page to the next.
    """
    if not isinstance(relation, View):
        return {}
    sorted_by = {each.removeprefix("-") for each in request.sort}
    doubles = (each.name for each in relation.columns if each.type == "DOUBLE")
    return {name: func.round(shown[name], DECIMALS) for name in sorted_by.intersection(doubles)}


def page_in_two(
    connection: duckdb.DuckDBPyConnection, relation: Relation, request: PageRequest
) -> pa.Table:
    """Return a page of a table: the runs of its rows by the order alone, then their columns."""
    if any((f.column, f.operator, len(f.values)) == ("run_id", "is", 1) for f in request.filters):
        return page_of(connection, relation, request)
    narrow = page_of(connection, relation, replace(request, fields=request.key))
    ids = tuple(dict.fromkeys(narrow["run_id"].to_pylist()))
    of_runs = Filter("run_id", "is", ids)
    return page_of(connection, relation, replace(request, filters=(*request.filters, of_runs)))


@lru_cache
def source(relation: Relation) -> tuple[Any, Shown]:
    """Return a relation as a statement takes it, and its columns as they are shown."""
    columns = (column(each.name, _TYPES.get(each.type)) for each in relation.columns)
    rows = table(relation.name, *columns)
    named = {name: rows.c[name] for name in _NAMED if name in rows.c}
    bare = {name: func.regexp_replace(each, _FOLDERS, r"\1\2:") for name, each in named.items()}
    return rows, {**dict(rows.c.items()), **bare}


def result(connection: duckdb.DuckDBPyConnection, statement: Select[Any]) -> pa.Table:
    """Return the result of a statement; every value in it is bound."""
    compiled = statement.compile(dialect=_DIALECT, compile_kwargs={"render_postcompile": True})
    values = [compiled.params[name] for name in compiled.positiontup or ()]
    return connection.sql(compiled.string, params=values).to_arrow_table()
