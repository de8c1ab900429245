"""Formats of answers: JSON, CSV, Parquet or Arrow, by the address's ending or the Accept header."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from http import HTTPStatus
from io import BytesIO
from typing import Any, Literal

import pyarrow as pa
from fastapi import Request, Response

from jobs.choices import Suffix
from jobs.operations.server_paths import without_folders, without_paths_in
from jobs.operations.table_formats import json_text, python_values, write_batches
from jobs.service.problems import Refusal

MEDIA_TYPES: Mapping[Suffix, str] = {
    "json": "application/json",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.stream",
}

#: What routes of tables answer beside JSON, for the schema.
BINARY: dict[str, Any] = {
    media_type: {"schema": {"type": "string", "format": "binary"}}
    for suffix, media_type in MEDIA_TYPES.items()
    if suffix != "json"
}


def format_of(request: Request, suffix: Suffix | None = None) -> Suffix:
    """Return the format that a request wants: by its address, else by its Accept header.

    Raises
    ------
    Refusal
        If it accepts none of ours.
    """
    if suffix is not None:
        return suffix
    for wanted in _accepted(request.headers.get("accept") or "*/*"):
        for each, media_type in MEDIA_TYPES.items():
            if _fits(wanted, media_type):
                return each
    raise Refusal(
        HTTPStatus.NOT_ACCEPTABLE,
        f"none of these formats is given: {request.headers['accept']}",
        f"accept one of {', '.join(MEDIA_TYPES.values())}",
    )


def _fits(wanted: str, media_type: str) -> bool:
    """Return whether a media type is one that is wanted; a star stands for any part of it."""
    # Some clients write one star for both parts.
    parts = (wanted if wanted != "*" else "*/*").split("/")
    ours = media_type.split("/")
    return len(parts) == len(ours) and all(w in ("*", o) for w, o in zip(parts, ours, strict=True))


def _accepted(header: str) -> list[str]:
    """Return the media types that a header accepts, the most wanted first."""
    weighted = []
    for each in header.split(","):
        kind, *parameters = (part.strip() for part in each.lower().split(";"))
        weights = [p[2:] for p in parameters if re.fullmatch(r"q=[01](\.\d*)?", p)]
        weighted.append((-float(weights[0]) if weights else -1.0, kind))
    return [kind for weight, kind in sorted(weighted, key=lambda pair: pair[0]) if weight]


def table_response(
    table: pa.Table,
    format: Suffix,  # noqa: A002
    beside: Mapping[str, Any],
    as_json: Collection[str] = (),
    headers: Mapping[str, str] | None = None,
    as_sent: Collection[str] = (),
) -> Response:
    """Return a table as a response.

    Parameters
    ----------
    table : pyarrow.Table
        The rows.
    format : {"json", "csv", "parquet", "arrow"}
        How.
    beside : mapping of str to object
        What JSON has beside the ``items``.
    as_json : collection of str
        Columns whose text is JSON, which JSON has as it is.
    headers : mapping of str to str, optional
        Headers of the response.
    as_sent : collection of str
        Columns of texts that clients sent, which stay as they are.
    """
    table = _bare(table, as_json, as_sent)
    if format == "json":
        rest = json.dumps(dict(beside))[1:]
        content = f'{{"items": {_json(table, as_json)}, {rest}'.encode()
    else:
        content = _bytes(table, format)
    return Response(content, media_type=MEDIA_TYPES[format], headers=dict(headers or {}))


def page_headers(request: Request, token: str | None) -> dict[str, str]:
    """Return the headers of a page of rows: what chose its format, and where the next one is."""
    headers = {"Vary": "Accept"}
    if token is not None:
        url = request.url.include_query_params(next=token)
        headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
    return headers


def item_content(
    table: pa.Table, as_json: Collection[str] = (), as_sent: Collection[str] = ()
) -> bytes:
    """Return the one row of a table as JSON."""
    return _json(_bare(table, as_json, as_sent), as_json)[1:-1].strip().encode()


def _bare(table: pa.Table, as_json: Collection[str], as_sent: Collection[str]) -> pa.Table:
    """Return a table whose texts, also those within JSON, name files without their folders."""
    sent = {name: table[name] for name in as_sent if name in table.column_names}
    for name in set(as_json).intersection(table.column_names):
        bare = [json.dumps(without_folders(json.loads(each))) for each in table[name].to_pylist()]
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.array(bare, pa.string()))
    table = without_paths_in(table)
    for name, texts in sent.items():
        table = table.set_column(table.schema.get_field_index(name), name, texts)
    return table


def _json(table: pa.Table, as_json: Collection[str]) -> str:
    rows = python_values(table)
    for name in as_json:
        for row in rows:
            if row.get(name) is not None:
                row[name] = json.loads(row[name])
    return json_text(rows)


def _bytes(table: pa.Table, format: Literal["csv", "parquet", "arrow"]) -> bytes:  # noqa: A002
    stream = BytesIO()
    write_batches(table.schema, table.to_batches(), format, stream)
    return stream.getvalue()
