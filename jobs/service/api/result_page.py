"""Pages of rows that are computed as a whole: answers, and results of named queries.

A page begins at a place of the whole: unlike the rows of a list, these may have no key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from http import HTTPStatus

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field

from jobs.service.api.listing import MOST_ROWS, MOST_VALUES
from jobs.service.api.page_tokens import content_of, token_of, wrong_token
from jobs.service.problems import Refusal
from survey.errors import UnknownName


class PageParameters(BaseModel):
    """The query parameters of a page. Without any, it is the whole."""

    model_config = ConfigDict(extra="forbid")

    sort: list[str] = Field(
        [], max_length=MOST_VALUES, description="Columns to sort by; a minus sorts downwards."
    )
    fields: list[str] = Field([], max_length=MOST_VALUES, description="Columns of the items.")
    limit: int | None = Field(
        None, ge=1, le=MOST_ROWS, description="Most items of a page. By default: all."
    )
    next: str | None = Field(None, description="What the page before gave as next.")


def page_of(
    rows: pa.Table,
    asked: PageParameters,
    made_from: Sequence[str],
    decimals: int | None = None,
) -> tuple[pa.Table, str | None]:
    """Return a page of some rows, and the token of the next one.

    Parameters
    ----------
    rows : pyarrow.Table
        All rows.
    asked : PageParameters
        Which page.
    made_from : sequence of str
        What tells these rows from others: a token is of these alone.
    decimals : int, optional
        Of numbers in the order, for rows that are computed anew for each page: the last digits of
        a mean then differ. By default numbers are compared as they are.

    Raises
    ------
    Refusal
        If there is no such column, or the token is of other rows or another order.
    """
    kinds = {each.name: each.type for each in rows.schema}
    # What Arrow sorts.
    plain = [
        name
        for name, kind in kinds.items()
        if not (pa.types.is_nested(kind) or pa.types.is_dictionary(kind))
    ]
    keys = [(known_column(each.removeprefix("-"), plain), each[:1] == "-") for each in asked.sort]
    fields = [known_column(each, rows.column_names) for each in asked.fields or rows.column_names]
    whole = hashlib.sha256(json.dumps([*made_from, *asked.sort]).encode()).hexdigest()[:16]
    first = _first(asked.next, whole, rows.num_rows)
    named = rows.select(list(dict.fromkeys(fields)))
    page = named.slice(first, asked.limit)
    if keys:
        order = [(name, "descending" if down else "ascending") for name, down in keys]
        ranks = pa.table({name: _ranks(rows[name], decimals) for name, _ in keys})
        places = pc.sort_indices(ranks, sort_keys=order)
        page = named.take(places.slice(first, asked.limit))
    after = first + page.num_rows
    return page, token_of([after, whole]) if after < rows.num_rows else None


def _ranks(column: pa.ChunkedArray, decimals: int | None) -> pa.ChunkedArray:
    """Return what rows are ordered by."""
    rounds = decimals is not None and pa.types.is_floating(column.type)
    return pc.round(column, decimals) if rounds else column


def known_column(name: str, names: Sequence[str]) -> str:
    """Return the name of a column.

    Raises
    ------
    Refusal
        If it is none of these.
    """
    if name in names:
        return name
    unknown = UnknownName("column", name, names)
    raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, unknown.message, unknown.hint)


def _first(token: str | None, whole: str, rows: int) -> int:
    """Return the place of a page's first row."""
    if token is None:
        return 0
    try:
        first, of = content_of(token)
        if of != whole or type(first) is not int or not 0 <= first <= rows:
            raise ValueError
    except (ValueError, TypeError):
        raise wrong_token("these rows") from None
    return first
