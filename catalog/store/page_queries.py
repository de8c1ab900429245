"""Queries of pages: of any relation, and of views of scores, which read the scores of few runs."""

# ruff: noqa: S608 - every name in these statements is declared

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import duckdb
from sqlalchemy import BigInteger, Double, Select, Text, column, func, table
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.sql.type_api import TypeEngine

from catalog.paging import PageRequest, Shown, page_statement
from catalog.store.latest_runs import latest_of
from catalog.store.schema import RUNS, Relation, View
from catalog.store.temporary_views import extra_columns
from catalog.store.views import views, with_labels

if TYPE_CHECKING:
    import pyarrow as pa

#: Columns that may name files and folders.
_NAMED = ("checkpoint", "dataset", "reported_dataset")

#: The folders in `file:/folder/name.pth[:10]`, but not those of a URL.
_FOLDERS = r"^(?:(file|folder|parquet):|(\w+):(?:~/|\.{1,2}/|/[^/\[]))[^\[]*/"

#: Decimals by which numbers that are computed are ordered.
_DECIMALS = 9

#: Runs whose scores are looked at first, and then four times as many, and so on.
_FIRST_RUNS = 16

#: Runs up to which only their scores are looked at, whatever the order.
FEW_RUNS = 2000

_TYPES: dict[str, type[TypeEngine[Any]]] = {"VARCHAR": Text, "DOUBLE": Double}
_TYPES |= {"INTEGER": BigInteger, "BIGINT": BigInteger}


def page_of(
    connection: duckdb.DuckDBPyConnection,
    relation: Relation,
    request: PageRequest,
    before: str = "",
) -> pa.Table:
    """Return a page of a relation; ``before`` the statement may stand a ``WITH``."""
    rows, shown = source(relation)
    ranks = _ranks(relation, shown)
    return result(connection, page_statement(rows, shown, request, ranks), before)


def _ranks(relation: Relation, shown: Shown) -> Shown:
    """Return what numbers computed from many are ordered by.

    Their last digits depend on the order of the sum, which differs from one page to the next.
    """
    if not isinstance(relation, View):
        return {}
    doubles = [each.name for each in relation.columns if each.type == "DOUBLE"]
    return {name: func.round(shown[name], _DECIMALS) for name in doubles}


def page_in_two(
    connection: duckdb.DuckDBPyConnection, relation: Relation, request: PageRequest
) -> pa.Table:
    """Return a page of a table: the runs of its rows by the order alone, then their columns."""
    narrow = page_of(connection, relation, replace(request, fields=request.key))
    ids = list(dict.fromkeys(narrow["run_id"].to_pylist()))
    return page_of(connection, relation, request, only_runs(connection, relation, ids))


def page_of_runs(
    connection: duckdb.DuckDBPyConnection, relation: Relation, request: PageRequest
) -> pa.Table:
    """Return a page of a view of scores; those of runs that it does not show are not read.

    Reading the scores of all runs takes seconds, choosing runs does not: they come first where the
    order begins with columns of runs.
    """
    import pyarrow as pa

    ids, in_order = _runs(connection, relation, request)
    if not in_order:
        if len(ids) > FEW_RUNS:
            return page_of(connection, relation, request)
        return page_of(connection, relation, request, only_runs(connection, relation, ids))
    parts: list[pa.Table] = []
    wanted, size = request.limit + 1, _FIRST_RUNS
    while wanted > 0 and (ids or not parts):
        only = only_runs(connection, relation, ids[:size])
        parts.append(page_of(connection, relation, replace(request, limit=wanted - 1), only))
        wanted -= parts[-1].num_rows
        ids, size = ids[size:], 4 * size
    return pa.concat_tables(parts)


def _runs(
    connection: duckdb.DuckDBPyConnection, relation: Relation, request: PageRequest
) -> tuple[list[str], bool]:
    """Return the runs that a page may show, and whether they are in its order."""
    of_runs = {name for name in relation.names if name in RUNS.names}
    if relation.name != "models":
        # There it is how many batches have a score.
        of_runs.discard("batches")
    order = []
    for each in request.order:
        if each.removeprefix("-") not in of_runs:
            break
        order.append(each)
    filters = tuple(each for each in request.filters if each.column in of_runs)
    wanted = PageRequest(("run_id",), ("run_id",), filters, sort=tuple(order), limit=1 << 31)
    shown = "runs" if relation.name == "signatures" else latest_of("runs")
    listed = Relation("listed", "", RUNS.columns)
    before = f"WITH listed AS (SELECT * FROM {shown}) "
    ids: list[str] = page_of(connection, listed, wanted, before)["run_id"].to_pylist()
    in_order = any(each.removeprefix("-") == "run_id" for each in order)
    if in_order and request.after is not None:
        names = [each.removeprefix("-") for each in request.order]
        last = request.after[names.index("run_id")]
        # The run that the page before ended in may have more rows.
        ids = ids[ids.index(last) :] if last in ids else ids
    return ids, in_order


def only_runs(connection: duckdb.DuckDBPyConnection, relation: Relation, ids: Sequence[str]) -> str:
    """Return a ``WITH`` under which a view reads the scores of these runs alone."""
    made = "CREATE OR REPLACE TEMP TABLE wanted_runs AS SELECT unnest($ids::VARCHAR[]) AS run_id"
    connection.execute(made, {"ids": list(ids)}).fetchall()
    wanted = "WHERE run_id IN (SELECT run_id FROM wanted_runs)"
    parts = [f"batch_scores AS (SELECT * FROM batch_scores {wanted})"]
    for view in views(extra_columns(connection)):
        if view.name == relation.name:
            whole = with_labels(view) if "tags" in relation.names else view
            parts.append(f"{view.name} AS (SELECT * FROM ({whole.sql}) {wanted})")
            break
        parts.append(f"{view.name} AS ({view.sql})")
    return f"WITH {', '.join(parts)} "


def source(relation: Relation) -> tuple[Any, Shown]:
    """Return a relation as a statement takes it, and its columns as they are shown."""
    columns = (column(each.name, _TYPES.get(each.type)) for each in relation.columns)
    rows = table(relation.name, *columns)
    named = {name: rows.c[name] for name in _NAMED if name in rows.c}
    bare = {name: func.regexp_replace(each, _FOLDERS, r"\1\2:") for name, each in named.items()}
    return rows, {**dict(rows.c.items()), **bare}


def result(
    connection: duckdb.DuckDBPyConnection, statement: Select[Any], before: str = ""
) -> pa.Table:
    """Return the result of a statement; every value in it is bound."""
    dialect = DefaultDialect(paramstyle="numeric_dollar")
    compiled = statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    values = [compiled.params[name] for name in compiled.positiontup or ()]
    return connection.sql(before + compiled.string, params=values).to_arrow_table()
