"""Pages of an answer: its rows in an order, some columns of them, and so many at a time."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from jobs.service.api.listing import MOST_ROWS
from jobs.service.problems import Refusal
from survey.errors import UnknownName

#: The query parameters of a page. An answer is whole where none of them is given.
PAGE: dict[str, Any] = {
    "sort": (
        list[str] | None,
        Field(None, description="Columns to sort by; a minus sorts downwards."),
    ),
    "fields": (list[str] | None, Field(None, description="Columns of the items.")),
    "limit": (
        int | None,
        Field(None, ge=1, le=MOST_ROWS, description="Most items of a page. By default: all."),
    ),
    "next": (str | None, Field(None, description="What the page before gave as next.")),
}


def page_of(
    rows: pa.Table, asked: Mapping[str, Any], made_from: Sequence[str]
) -> tuple[pa.Table, str | None]:
    """Return a page of an answer, and the token of the next one.

    Parameters
    ----------
    rows : pyarrow.Table
        All rows of the answer.
    asked : mapping
        Values of the parameters ``PAGE``.
    made_from : sequence of str
        What tells the answer from others: a token is of one answer alone.

    Raises
    ------
    Refusal
        If there is no such column, or the token is of another answer or order.
    """
    sort, limit = asked.get("sort") or (), asked.get("limit")
    kinds = {each.name: each.type for each in rows.schema}
    # What Arrow sorts.
    plain = [
        name
        for name, kind in kinds.items()
        if not (pa.types.is_nested(kind) or pa.types.is_dictionary(kind))
    ]
    keys = [(_known(each.removeprefix("-"), plain), each[:1] == "-") for each in sort]
    fields = [_known(each, rows.column_names) for each in asked.get("fields") or rows.column_names]
    whole = hashlib.sha256(json.dumps([*made_from, *sort]).encode()).hexdigest()[:16]
    first = _first(asked.get("next"), whole, rows.num_rows)
    if keys:
        order = [(name, "descending" if down else "ascending") for name, down in keys]
        rows = rows.take(pc.sort_indices(rows, sort_keys=order))
    page = rows.slice(first, limit).select(list(dict.fromkeys(fields)))
    after = first + page.num_rows
    return page, _token(after, whole) if after < rows.num_rows else None


def _known(name: str, names: Sequence[str]) -> str:
    if name in names:
        return name
    unknown = UnknownName("column", name, names)
    raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, unknown.message, unknown.hint)


def _token(first: int, whole: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([first, whole]).encode()).decode()


def _first(token: str | None, whole: str, rows: int) -> int:
    """Return the place of a page's first row."""
    if token is None:
        return 0
    try:
        first, of = json.loads(base64.b64decode(token, b"-_", validate=True))
        if of != whole or type(first) is not int or not 0 <= first <= rows:
            raise ValueError
    except (ValueError, TypeError, RecursionError, binascii.Error):
        raise Refusal(
            HTTPStatus.BAD_REQUEST,
            "next is no token of this answer in this order",
            "begin with the first page: other runs may count now",
        ) from None
    return first
