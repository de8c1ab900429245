"""Saved queries over HTTP: kept and removed."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, StringConstraints

from jobs.service.dependencies import RegistryOfService

router = APIRouter(tags=["saved queries"])

#: Letters of a statement: an address holds it.
MOST_LETTERS = 20_000

#: The name of a query, which is a part of its address, and its statement. No text of PostgreSQL
#: holds NUL.
QueryName = Annotated[
    str,
    StringConstraints(
        max_length=200,
        strip_whitespace=True,
        pattern=r"^[^/\x00-\x1f]*[^/ .\x00-\x1f][^/\x00-\x1f]*$",
    ),
]
QueryText = Annotated[
    str, StringConstraints(min_length=1, max_length=MOST_LETTERS, pattern=r"^[^\x00]*$")
]


class NewQuery(BaseModel, extra="forbid"):
    """A query that is kept under a name."""

    name: QueryName
    #: One statement that reads.
    sql: QueryText


class ShownQuery(BaseModel):
    """A query that is kept."""

    name: str
    sql: str
    saved_at: datetime


@router.post("/saved_queries", status_code=HTTPStatus.CREATED)
def add(query: NewQuery, registry: RegistryOfService) -> ShownQuery:
    """Keep a query; it takes the place of another of that name."""
    now = datetime.now(UTC)
    registry.saved_queries.save(query.name, query.sql, now)
    return ShownQuery(name=query.name, sql=query.sql, saved_at=now)


@router.delete("/saved_queries/{name}", status_code=HTTPStatus.NO_CONTENT)
def remove(name: str, registry: RegistryOfService) -> None:
    """Forget a query that is kept."""
    registry.saved_queries.remove(name)
