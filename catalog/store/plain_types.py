"""Values of SQL that files and texts cannot hold as they are, such as ``timestamp 'infinity'``.

DuckDB itself gives them as text: Python's dates end with the year 9999, and Arrow has no type for
some others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import duckdb
from duckdb.sqltypes import DuckDBPyType

from catalog.store.connection import in_memory
from catalog.store.schema import quoted_name
from survey.errors import QueryError
from survey.text import first_line

if TYPE_CHECKING:
    import pyarrow as pa

_KEPT = """
boolean tinyint smallint integer bigint utinyint usmallint uinteger ubigint hugeint decimal float
double varchar null
"""

#: What Parquet and Arrow hold beside these, as Arrow gives it.
_KEPT_IN_PARQUET = """
date time timestamp timestamp_s timestamp_ms timestamp_ns timestamp_with_time_zone blob uuid enum
map
"""

#: Numbers whose texts within lists and structures would be Python's.
_PLAIN_ALONE = {"hugeint", "decimal"}

#: How times are shown in aligned text.
_SECONDS = "%Y-%m-%d %H:%M:%S"


#: Rows that DuckDB hands over at once: those it computes at once.
_BATCH_ROWS = 2048

#: A result that is computed as it is fetched.
Result = duckdb.DuckDBPyRelation


def plain_batches(relation: Result, format: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:  # noqa: A002
    """Return the schema and the batches of a result whose values a format can hold.

    Parameters
    ----------
    relation, format
        As of ``with_plain_types``.
    """
    reader = with_plain_types(relation, format).to_arrow_reader(_BATCH_ROWS)
    return reader.schema, _batches(reader)


def plain_table(table: pa.Table, format: str) -> pa.Table:  # noqa: A002
    """Return a result that another process gave, as ``plain_batches`` gives one of this.

    Raises
    ------
    QueryError
        If it has values that no statement gives.
    """
    with in_memory() as connection:
        try:
            connection.register("result", table)
            return with_plain_types(connection.sql("FROM result"), format).to_arrow_table()
        except duckdb.Error as error:
            raise QueryError(f"the result cannot be read: {first_line(error)}") from None


def _batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield batches; what DuckDB raises in computing one comes through Arrow as an ``OSError``."""
    try:
        yield from reader
    except OSError as error:
        if str(error).startswith("Out of Memory"):
            raise MemoryError from error
        raise duckdb.Error(str(error)) from error


def with_plain_types(relation: Result, format: str) -> Result:  # noqa: A002
    """Return a result whose values a format can hold, computed as it is fetched.

    Numbers, truth values, text, and lists, structures and maps from text of them stay what they
    are; anything else becomes text, by DuckDB's rules.

    Parameters
    ----------
    relation : duckdb.DuckDBPyRelation
        The result.
    format : {"table", "json", "csv", "parquet", "arrow"}
        Parquet and Arrow hold more types than the others; a table shows times to the second.
    """
    kept = frozenset(f"{_KEPT} {_KEPT_IN_PARQUET * (format in ('parquet', 'arrow'))}".split())
    columns, changed = [], False
    for place, (name, kind) in enumerate(zip(relation.columns, relation.types, strict=True), 1):
        alone = format != "table" or kind.id in _PLAIN_ALONE
        plain = _plain(kind, kept if alone else kept - _PLAIN_ALONE)
        value = f"#{place}"
        if format == "table" and kind.id.startswith("timestamp"):
            value = f"strftime({value}, '{_SECONDS}')"
        elif format == "table" and kind.id == "map":
            value = f"CAST({value} AS VARCHAR)"
        elif plain != str(kind):
            value = f"CAST({value} AS {plain})"
        changed |= value[0] != "#"
        columns.append(f"{value} AS {quoted_name(name)}")
    return relation.project(", ".join(columns)) if changed else relation


def _plain(kind: DuckDBPyType, kept: frozenset[str]) -> str:
    """Return the SQL type that a type's values are given as."""
    if kind.id in ("list", "array"):
        ((_, of), *_) = _children(kind)
        return str(kind) if _plain(of, kept) == str(of) else f"{_plain(of, kept)}[]"
    if kind.id == "map":
        (_, key), (_, value) = _children(kind)
        if "map" in kept:
            return f"MAP({_plain(key, kept)}, {_plain(value, kept)})"
        # An object of JSON, such as the tags of a run.
        has_names = _plain(key, kept) == "VARCHAR"
        return f"MAP(VARCHAR, {_plain(value, kept)})" if has_names else "VARCHAR"
    # An empty structure is none that Parquet holds.
    if kind.id == "struct" and _children(kind):
        fields = (f"{quoted_name(name)} {_plain(of, kept)}" for name, of in _children(kind))
        return f"STRUCT({', '.join(fields)})"
    return str(kind) if kind.id.replace(" ", "_") in kept else "VARCHAR"


def _children(kind: DuckDBPyType) -> list[tuple[str, DuckDBPyType]]:
    return cast("list[tuple[str, DuckDBPyType]]", kind.children)
