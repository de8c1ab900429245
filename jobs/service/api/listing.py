"""Lists: filters, order, fields, search, pages, facets and formats, the same for all of them.

A ``Listing`` declares what is listed. Its parameters, with their meanings, are made of its columns:
``column`` (texts with ``*`` and ``?``; several values are alternatives), ``column.not``,
``column.min``, ``column.max``, ``column.known``; ``search``, ``sort``, ``fields``, ``limit`` and
``next``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pydantic import BaseModel

from catalog.paging import Filter, Listed, PageRequest, next_after
from jobs.service.api.page_tokens import content_of, token_of, wrong_token
from survey.column_fields import Column

#: Rows of a page, and the most of them.
ROWS, MOST_ROWS = 100, 10_000

#: How often a parameter may be given: a statement has a part for each value.
MOST_VALUES = 200

#: SQL types of columns that order and filter.
SCALARS = frozenset(("VARCHAR", "INTEGER", "BIGINT", "DOUBLE", "TIMESTAMPTZ", "BOOLEAN"))

#: Columns that hold sentences, in which paths may stand: they neither order nor filter.
_SENTENCES = frozenset(
    (
        *("error", "reason", "traceback", "suspicion", "settings", "transform", "notes"),
        *("evidence", "title"),
    )
)


@dataclass(frozen=True, slots=True)
class Listing:
    """What is listed at an address of the API."""

    #: The last part of the address.
    name: str
    #: What one item is, in a sentence.
    sentence: str
    rows: Listed
    #: Columns that no two items are all equal in; they stand in an item's address.
    key: tuple[str, ...]
    #: Columns left out unless they are asked for.
    brief_without: tuple[str, ...] = ()
    #: The order where none is asked for.
    sort: tuple[str, ...] = ()
    #: Whether its items have addresses here; else a route of their own answers.
    itemised: bool = True
    #: Whether keys may hold slashes.
    slashes: bool = False
    #: Whether an item never changes once its ``status`` is done.
    lasting: bool = False
    #: Columns of texts that clients sent: they are given back as they came, with what looks like a
    #: path.
    as_sent: frozenset[str] = frozenset()

    @property
    def scalars(self) -> tuple[Column, ...]:
        """The columns that order and filter."""
        return tuple(c for c in self.rows.columns if c.type in SCALARS and c.name not in _SENTENCES)

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that are searched."""
        return tuple(c.name for c in self.scalars if c.type == "VARCHAR")

    @property
    def names(self) -> tuple[str, ...]:
        """All columns."""
        return tuple(c.name for c in self.rows.columns)

    @property
    def as_json(self) -> frozenset[str]:
        """The columns that hold JSON."""
        return frozenset(c.name for c in self.rows.columns if c.type == "JSON")

    def path_of(self, name: str) -> str:
        """Return a column of the key as a part of an item's address."""
        (column,) = (c for c in self.rows.columns if c.name == name)
        kind = ":int" if column.type != "VARCHAR" else ":path" if self.slashes else ""
        return f"{{{name}{kind}}}"

    def request(self, asked: BaseModel) -> PageRequest:
        """Return the page that some parameters ask for."""
        given = asked.model_dump(exclude_none=True)
        brief = tuple(name for name in self.names if name not in self.brief_without)
        page = PageRequest(
            fields=tuple(dict.fromkeys(given.get("fields") or brief)),
            key=self.key,
            filters=tuple(_filters(given)),
            search=given.get("search"),
            searched=self.texts,
            sort=tuple(given.get("sort", self.sort)),
            limit=given.get("limit", ROWS),
        )
        return replace(page, after=self._after(given.get("next"), page))

    def next_token(self, table: pa.Table, page: PageRequest) -> str | None:
        """Return the token of the page after one; None where there is none."""
        after = next_after(table, page)
        if after is None:
            return None
        values = [v.isoformat() if isinstance(v, datetime) else v for v in after]
        return token_of([page.order, values])

    def _after(self, token: str | None, page: PageRequest) -> tuple[Any, ...] | None:
        if token is None:
            return None
        try:
            order, values = content_of(token)
            if tuple(order) != page.order or len(values) != len(order):
                raise ValueError
            return tuple(map(self._typed, page.order, values))
        except (ValueError, TypeError):
            raise wrong_token("this list") from None

    def _typed(self, name: str, value: Any) -> Any:
        (column,) = (c for c in self.scalars if c.name == name.removeprefix("-"))
        if value is None:
            return None
        kinds: dict[str, tuple[type, ...]] = {
            "VARCHAR": (str,),
            "DOUBLE": (int, float),
            "TIMESTAMPTZ": (str,),
            "BOOLEAN": (bool,),
        }
        expected = kinds.get(column.type, (int,))
        # To Python a truth value is a number.
        if isinstance(value, bool) != (expected == (bool,)) or not isinstance(value, expected):
            raise TypeError
        return in_utc(datetime.fromisoformat(str(value))) if column.type == "TIMESTAMPTZ" else value


def in_utc(moment: datetime) -> datetime:
    """Return a moment that has a zone in UTC, as databases keep it.

    Raises
    ------
    ValueError
        If it has no zone, or UTC has no year for it.
    """
    if moment.tzinfo is None:
        raise ValueError("a moment needs a time zone")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("the moment is in no year of UTC") from None


def _filters(given: dict[str, Any]) -> Iterator[Filter]:
    for name, value in given.items():
        operator, _, column = name.partition("__")
        if column and value not in ((), []):
            values = tuple(value) if isinstance(value, list) else (value,)
            yield Filter(column, operator, values)  # type: ignore[arg-type]
