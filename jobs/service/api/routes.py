"""The routes of lists: pages, facets and items, in every format."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from typing import Annotated, Any

import pyarrow as pa
from fastapi import APIRouter, Depends, Query, Request, Response, params
from pydantic import BaseModel

from catalog.copied_home import CopiedRows
from catalog.paging import Filter, Listed, PageRequest
from catalog.store.pages import StoredRows
from jobs.choices import Suffix
from jobs.service.api.formats import (
    BINARY,
    format_of,
    item_content,
    page_headers,
    table_response,
)
from jobs.service.api.listing import Listing
from jobs.service.api.parameters import (
    TYPES,
    Facets,
    facet_parameters,
    item_model,
    page_model,
    page_parameters,
)
from jobs.service.dependencies import HomeOfService
from jobs.service.first_copy import first_copy_made
from jobs.service.store_turns import store_turn
from survey.errors import UnknownName


def router_of(listing: Listing) -> APIRouter:
    """Return the routes of a list: its pages, its facets and its items."""
    router = APIRouter(tags=[listing.name], dependencies=list(_waits(listing.rows)))
    item = item_model(listing)
    lists, facets = page_parameters(listing), facet_parameters(listing)
    page = page_model(listing, item)

    def list_items(
        request: Request, home: HomeOfService, asked: Any, suffix: Suffix | None = None
    ) -> Response:
        form, wanted = format_of(request, suffix), listing.request(asked)
        table = listing.rows.page(home, wanted)
        token = listing.next_token(table, wanted)
        headers = page_headers(request, token)
        rows = table.slice(0, wanted.limit).select(list(wanted.fields))
        beside = {"next": token}
        return table_response(rows, form, beside, listing.as_json, headers, listing.as_sent)

    def count_values(
        request: Request, home: HomeOfService, asked: Any, suffix: Suffix | None = None
    ) -> Response:
        form, wanted = format_of(request, suffix), listing.request(asked)
        table = pa.concat_tables(
            _facet(listing.rows.facet(home, wanted, by), by) for by in dict.fromkeys(asked.by)
        )
        return table_response(table, form, {"next": None}, headers={"Vary": "Accept"})

    def get_item(request: Request, home: HomeOfService, **key: Any) -> Response:
        wanted = PageRequest(
            listing.names,
            listing.key,
            tuple(Filter(name, "is", (key[name],)) for name in listing.key),
            limit=1,
        )
        table = listing.rows.page(home, wanted)
        if not table.num_rows:
            raise UnknownName(listing.name, "/".join(map(str, key.values())), ())
        return _item_response(request, table.select(list(listing.names)), listing)

    for path, function, asked, model in (
        (f"/{listing.name}", list_items, lists, page),
        (f"/{listing.name}/facets", count_values, facets, Facets),
    ):
        add_table_routes(router, path, function, asked, model, listing.sentence)
    if not listing.itemised:
        return router
    address = "/".join(map(listing.path_of, listing.key))
    keys = [
        inspect.Parameter(c.name, inspect.Parameter.KEYWORD_ONLY, annotation=TYPES[c.type])
        for c in listing.rows.columns
        if c.name in listing.key
    ]
    typed = inspect.signature(get_item, eval_str=True).parameters
    vars(get_item)["__signature__"] = inspect.Signature([*list(typed.values())[:2], *keys])
    router.add_api_route(
        f"/{listing.name}/{address}",
        get_item,
        summary=f"One of {listing.name}.",
        name=f"get_{listing.name}",
        operation_id=f"get_{listing.name}",
        responses={200: {"model": item}, 304: {"description": "It is as it was."}},
    )
    return router


def _waits(rows: Listed) -> Iterator[params.Depends]:
    """Yield what requests for rows wait for."""
    if isinstance(rows, CopiedRows):
        yield Depends(first_copy_made)
    elif isinstance(rows, StoredRows):
        yield Depends(store_turn)


def add_table_routes(
    router: APIRouter,
    path: str,
    function: Callable[..., Response | Awaitable[Response]],
    asked: type[BaseModel],
    model: type[BaseModel],
    sentence: str,
) -> None:
    """Add the routes of a table: by the Accept header, and with the format as an ending.

    Parameters
    ----------
    router : APIRouter
        What they are added to.
    path : str
        The address without an ending.
    function : callable
        Answers; its ``asked`` becomes the query parameters and its ``suffix`` the ending.
    asked : type
        The query parameters.
    model : type
        What the answer in JSON is.
    sentence : str
        What it is about.
    """
    typed = dict(inspect.signature(function, eval_str=True).parameters)
    typed["asked"] = typed["asked"].replace(annotation=Annotated[asked, Query()])
    ending = typed.pop("suffix").replace(annotation=Suffix, default=inspect.Parameter.empty)
    answers: dict[int | str, dict[str, Any]] = {
        200: {"model": model, "description": sentence, "content": BINARY}
    }
    name = path.strip("/").replace("/", "_")
    for suffix, parameters in (("", []), (".{suffix}", [ending])):
        route = functools.partial(function)
        signature = inspect.Signature([*typed.values(), *parameters], return_annotation=Response)
        vars(route)["__signature__"] = signature
        router.add_api_route(
            path + suffix,
            route,
            summary=sentence,
            # Of a partial function there is another one.
            description=sentence,
            name=f"{name}_as" if suffix else name,
            operation_id=None if suffix else name,
            responses=answers,
            # Its parameters are many, and those of the other one.
            include_in_schema=not suffix,
        )


def _facet(counts: pa.Table, by: str) -> pa.Table:
    values = counts["value"].cast(pa.string())
    column = pa.array([by] * len(values), pa.string())
    return pa.table({"column": column, "value": values, "count": counts["count"]})


def _item_response(request: Request, table: pa.Table, listing: Listing) -> Response:
    """Return an item; one that lasts has a tag by which clients keep it."""
    content = item_content(table, listing.as_json, listing.as_sent)
    headers = {}
    if listing.lasting and table["status"][0].as_py() == "done":
        headers["ETag"] = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        kept = request.headers.get("if-none-match", "")
        # A star stands for any tag.
        if kept.strip() == "*" or headers["ETag"] in kept:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(content, media_type="application/json", headers=headers)
