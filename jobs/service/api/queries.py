"""Named queries: the statements of the store that verbs are made of, with filters and facets."""

from __future__ import annotations

from typing import Annotated, Any

import pyarrow as pa
from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from catalog.home import Home
from catalog.paging import Filter, PageRequest
from catalog.store.pages import RowsInMemory
from catalog.store.queries import NamedQuery, named_queries, run_query
from jobs.service.api.formats import Suffix, format_of, page_headers, table_response
from jobs.service.api.listing import MOST_ROWS, ROWS
from jobs.service.api.parameters import TYPES
from jobs.service.api.routes import add_table_routes
from jobs.service.dependencies import HomeOfService
from jobs.service.store_turns import store_turn
from survey.column_fields import Column
from survey.errors import SettingsError, UnknownName

router = APIRouter(tags=["queries"])

#: Those that read the store.
_asked = APIRouter(dependencies=[Depends(store_turn)])

#: The place of a row in the result, by which pages follow each other.
_PLACE = "place"


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


class QueryParameters(BaseModel):
    """What is asked of a named query."""

    model_config = ConfigDict(extra="forbid")

    run: list[str] = Field([], description="Ids of the runs that it is about.")
    where: list[Annotated[str, Field(pattern="^[^=]+=")]] = Field(
        [], description="COLUMN=VALUE; values of a column are alternatives, * and ? any text."
    )
    facet: list[str] = Field([], description="Columns whose values are counted.")
    limit: int = Field(ROWS, ge=1, le=MOST_ROWS, description="Most rows of a page.")
    next: str | None = Field(None, pattern="^[0-9]{1,9}$", description="From the page before.")


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
        asked: QueryParameters,
        suffix: Suffix | None = None,
    ) -> Response:
        form = format_of(request, suffix)
        rows = _rows(home, query, asked)
        page = _page_of(rows, asked)
        table = rows.page(home, page)
        more = table.num_rows > page.limit
        table = table.slice(0, page.limit)
        after = str(table[_PLACE][-1].as_py()) if more else None
        facets = {by: _counts(rows.facet(home, page, by)) for by in asked.facet}
        beside = {"next": after, "facets": facets}
        rows, headers = table.select(list(page.fields)[1:]), page_headers(request, after)
        return table_response(rows, form, beside, headers=headers)

    path = f"/queries/{query.name.replace('_', '-')}"
    add_table_routes(_asked, path, answer, QueryParameters, QueryRows, query.sentence)


def _rows(home: Home, query: NamedQuery, asked: QueryParameters) -> RowsInMemory:
    """Return the result of a query, each row with its place in it."""
    values: dict[str, Any] = {"run_ids": asked.run or None} if "run_ids" in query.parameters else {}
    if "run_id" in query.parameters:
        if len(asked.run) != 1:
            raise SettingsError(
                f"{query.name} is about one run, {len(asked.run)} were named", hint="run=ID"
            )
        values["run_id"] = asked.run[0]
    result = run_query(home, query, values)
    numbered = result.add_column(0, _PLACE, pa.array(range(result.num_rows), pa.int64()))
    columns = tuple(Column(each.name, _kind(each.type), "") for each in numbered.schema)
    return RowsInMemory(columns, lambda _: numbered)


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind):
        return "BIGINT"
    if pa.types.is_floating(kind):
        return "DOUBLE"
    return "VARCHAR" if pa.types.is_string(kind) else str(kind)


def _page_of(rows: RowsInMemory, asked: QueryParameters) -> PageRequest:
    kinds = {each.name: each.type for each in rows.columns}
    given: dict[str, list[Any]] = {}
    for name, _, value in (each.partition("=") for each in asked.where):
        given.setdefault(_known(name, kinds), []).append(_typed(value, kinds[name]))
    for name in asked.facet:
        _known(name, kinds)
    filters = tuple(Filter(name, "is", tuple(values)) for name, values in given.items())
    after = None if asked.next is None else (int(asked.next),)
    return PageRequest(tuple(kinds), (_PLACE,), filters, after=after, limit=asked.limit)


def _known(name: str, kinds: dict[str, str]) -> str:
    usable = [each for each, kind in kinds.items() if kind in TYPES and each != _PLACE]
    if name not in usable:
        raise UnknownName("column", name, usable)
    return name


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
