"""Named queries: the statements of the store that verbs are made of, with filters and facets."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated, Any

import pyarrow as pa
from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field

from catalog.home import Home
from catalog.paging import Filter, PageRequest
from catalog.store.page_queries import DECIMALS
from catalog.store.pages import RowsInMemory
from catalog.store.queries import NamedQuery, named_queries, run_query
from catalog.store.reader import query as stored
from catalog.store.reader import run_row
from jobs.choices import Suffix
from jobs.service.api.formats import format_of, page_headers, table_response
from jobs.service.api.listing import MOST_ROWS, MOST_VALUES, ROWS
from jobs.service.api.parameters import TYPES
from jobs.service.api.result_page import PageParameters, known_column, page_of
from jobs.service.api.routes import add_table_routes
from jobs.service.dependencies import HomeOfService
from jobs.service.renderer import revision
from jobs.service.store_turns import store_turn
from survey.column_fields import Column
from survey.errors import SettingsError, UnknownName

router = APIRouter(tags=["queries"])

#: Those that read the store.
_asked = APIRouter(dependencies=[Depends(store_turn)])


class QueryEntry(BaseModel):
    """A named query."""

    name: str
    sentence: str
    sql: str
    #: Whether it is about one run, or some: then ``run`` names them.
    of_runs: bool


class QueryEntries(BaseModel):
    """Every named query."""

    items: list[QueryEntry]
    next: None = None


class QueryRows(BaseModel):
    """A page of a named query."""

    items: list[dict[str, Any]]
    next: str | None
    #: The values of the columns asked for, and how many rows have each.
    facets: dict[str, dict[str, int]]


class QueryParameters(PageParameters):
    """What is asked of a named query."""

    run: list[str] = Field(
        [], max_length=MOST_VALUES, description="Ids of the runs that it is about."
    )
    where: list[Annotated[str, Field(pattern="^[^=]+=")]] = Field(
        [],
        max_length=MOST_VALUES,
        description="COLUMN=VALUE; values of a column are alternatives, * and ? any text.",
    )
    facet: list[str] = Field(
        [], max_length=MOST_VALUES, description="Columns whose values are counted."
    )
    limit: int = Field(ROWS, ge=1, le=MOST_ROWS, description="Most items of a page.")


class RunQueryParameters(QueryParameters):
    """What is asked of a named query about one run."""

    run: list[str] = Field(
        ..., min_length=1, max_length=1, description="Id of the run, or what only it begins with."
    )


@router.get("/queries", summary="Every named query.")
def queries() -> QueryEntries:
    """Return the named queries with their SQL."""
    entries = [
        QueryEntry(
            name=each.name, sentence=each.sentence, sql=each.sql, of_runs=bool(each.parameters)
        )
        for each in named_queries().values()
    ]
    return QueryEntries(items=entries)


def _add(query: NamedQuery) -> None:
    def answer(
        request: Request,
        home: HomeOfService,
        asked: Any,
        suffix: Suffix | None = None,
    ) -> Response:
        form = format_of(request, suffix)
        rows = _rows(home, query, asked)
        wanted = _wanted(rows, asked)
        counted = replace(wanted, limit=asked.limit)
        facets = {by: _counts(rows.facet(home, counted, by)) for by in dict.fromkeys(asked.facet)}
        # Places are of what the home holds now.
        made_from = (revision(home), query.name, repr(asked.run), repr(asked.where))
        table, token = page_of(rows.page(home, wanted), asked, made_from, DECIMALS)
        beside = {"next": token, "facets": facets}
        return table_response(table, form, beside, headers=page_headers(request, token))

    path = f"/queries/{query.name.replace('_', '-')}"
    parameters = RunQueryParameters if "run_id" in query.parameters else QueryParameters
    add_table_routes(_asked, path, answer, parameters, QueryRows, query.sentence)


def _rows(home: Home, query: NamedQuery, asked: QueryParameters) -> RowsInMemory:
    """Return the result of a query."""
    values: dict[str, Any] = {"run_ids": asked.run or None} if "run_ids" in query.parameters else {}
    if "run_id" in query.parameters:
        values["run_id"] = run_row(home, asked.run[0]).run_id
    elif asked.run:
        known = stored(home, "SELECT run_id FROM runs")["run_id"].to_pylist()
        for run in sorted({*asked.run} - {*known}):
            raise UnknownName("run", run, known)
    result = run_query(home, query, values)
    columns = tuple(Column(each.name, _kind(each.type), "") for each in result.schema)
    return RowsInMemory(columns, lambda _: result)


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "BIGINT"
    if pa.types.is_floating(kind):
        return "DOUBLE"
    return "VARCHAR" if pa.types.is_string(kind) else str(kind)


def _wanted(rows: RowsInMemory, asked: QueryParameters) -> PageRequest:
    """Return the rows that are asked for, of all pages."""
    kinds = {each.name: each.type for each in rows.columns}
    usable = [name for name, kind in kinds.items() if kind in TYPES]
    given: dict[str, list[Any]] = {}
    for name, _, value in (each.partition("=") for each in asked.where):
        given.setdefault(known_column(name, usable), []).append(_typed(value, kinds[name]))
    for name in asked.facet:
        known_column(name, usable)
    filters = tuple(Filter(name, "is", tuple(values)) for name, values in given.items())
    return PageRequest(tuple(kinds), (), filters, limit=sys.maxsize - 1)


def _typed(value: str, kind: str) -> Any:
    try:
        return {"BIGINT": int, "DOUBLE": float}.get(kind, str)(value)
    except ValueError:
        raise SettingsError(f"{value!r} is no number", hint="COLUMN=NUMBER") from None


def _counts(facet: pa.Table) -> dict[str, int]:
    pairs = zip(facet["value"].to_pylist(), facet["count"].to_pylist(), strict=True)
    return {"" if value is None else str(value): count for value, count in pairs}


for _query in named_queries().values():
    _add(_query)
router.include_router(_asked)
