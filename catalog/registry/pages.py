"""Pages of the registry's tables, and of two as clients know them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Double,
    FromClause,
    Integer,
    RowMapping,
    Select,
    and_,
)
from sqlalchemy.exc import DataError

from catalog.home import Home
from catalog.paging import Listed, PageRequest, Shown, facet_statement, page_statement, rank_of
from catalog.registry.columns import UtcDateTime
from catalog.registry.database import Database
from catalog.registry.tables import EVENTS, SUBMISSIONS, SURVEYS
from survey.column_fields import Column
from survey.errors import SettingsError, StoreError

if TYPE_CHECKING:
    import pyarrow as pa

#: The SQL types of a registry's columns, and JSON.
_TYPES: Mapping[type, str] = {
    BigInteger: "BIGINT",
    Integer: "BIGINT",
    Boolean: "BOOLEAN",
    Double: "DOUBLE",
    JSON: "JSON",
    UtcDateTime: "TIMESTAMPTZ",
}


@dataclass(frozen=True, slots=True)
class RegistryRows(Listed):
    """The rows of a table of the registry, or of some that are joined."""

    source: FromClause
    #: What is shown of them, by name; by default every column.
    chosen: Shown | None = None

    @property
    def shown(self) -> Shown:
        """Their columns by name."""
        return self.chosen or dict(self.source.c.items())

    @property
    def columns(self) -> tuple[Column, ...]:
        """Their columns, as tables declare them."""
        return tuple(
            Column(
                name,
                _TYPES.get(type(each.type), "VARCHAR"),
                getattr(each, "comment", None) or f"{name}.",
            )
            for name, each in self.shown.items()
        )

    def page(self, home: Home, request: PageRequest) -> pa.Table:
        """Return a page; see ``Listed``. JSON is text."""
        types = {each.name: each.type for each in self.columns}
        kinds = {name: types[name] for name in request.fields}
        kinds |= {rank_of(n): types[n] for n in (each.removeprefix("-") for each in request.order)}
        return _arrow(_rows(home, page_statement(self.source, self.shown, request)), kinds)

    def facet(self, home: Home, request: PageRequest, by: str) -> pa.Table:
        """Return the values of a column; see ``Listed``."""
        (kind,) = (each.type for each in self.columns if each.name == by)
        kinds = {"value": kind, "count": "BIGINT"}
        return _arrow(_rows(home, facet_statement(self.source, self.shown, request, by)), kinds)


def _rows(home: Home, statement: Select[Any]) -> Sequence[RowMapping]:
    database = Database(home)
    try:
        with database.transaction() as connection:
            return connection.execute(statement).mappings().all()
    except StoreError as error:
        if isinstance(error.__cause__, DataError):
            raise SettingsError(
                "a filter has a value that its column cannot hold", hint="ask for another one"
            ) from error
        raise
    finally:
        database.close()


def _arrow(rows: Sequence[RowMapping], kinds: Mapping[str, str]) -> pa.Table:
    import pyarrow as pa

    from catalog.arrow_arrays import table_of

    types = {"BIGINT": pa.int64(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_()}
    types["TIMESTAMPTZ"] = pa.timestamp("us", "UTC")
    schema = pa.schema([(name, types.get(kind, pa.string())) for name, kind in kinds.items()])
    as_json = {name for name, kind in kinds.items() if kind == "JSON"}
    values = [
        {name: json.dumps(row[name]) if name in as_json else row[name] for name in kinds}
        for row in rows
    ]
    return table_of(values, schema)


_STATE = ("submitted_at", "started_at", "ended_at", "measured", "failed", "skipped", "seconds")

#: Surveys that were submitted to the service, with what they declare.
SUBMITTED_SURVEYS = RegistryRows(
    SUBMISSIONS.join(SURVEYS),
    {
        "id": SUBMISSIONS.c.id,
        "name": SURVEYS.c.name,
        "state": SUBMISSIONS.c.state,
        "cancelling": and_(SUBMISSIONS.c.state == "running", SUBMISSIONS.c.cancel_at.is_not(None)),
        "reason": SUBMISSIONS.c.reason,
        **{name: SUBMISSIONS.c[name] for name in _STATE},
        "definition": SURVEYS.c.definition,
    },
)

#: Events by the names that webhooks are sent them with.
SENT_EVENTS = RegistryRows(
    EVENTS,
    {
        "id": EVENTS.c.id,
        "type": EVENTS.c.kind,
        "timestamp": EVENTS.c.happened_at,
        "title": EVENTS.c.title,
        "cause": EVENTS.c.cause,
        "data": EVENTS.c.detail,
    },
)
