"""Pages of long tables: filters, an order without ties, and where the next page begins.

The next page begins after the last row's values in the order, not after a number of rows: whatever
is added or removed meanwhile, every other row is on one page, and a late page is as quick as the
first. Statements are SQLAlchemy's, for any database: every value is bound, and none becomes SQL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import ColumnElement, FromClause, Select, and_, false, func, literal, or_, select
from sqlalchemy.sql import operators

from catalog.home import Home
from survey.column_fields import Column

if TYPE_CHECKING:
    import pyarrow as pa

#: What a filter asks of a column: one of some values; none of them; at least or at most one; to be
#: known, or not; to be a list that holds one of them.
Operator = Literal["is", "not", "min", "max", "known", "has"]

#: The columns of a source by name: as they are stored, or what is shown in their place.
Shown = Mapping[str, ColumnElement[Any]]


@dataclass(frozen=True, slots=True)
class Filter:
    """What is asked of a column; all filters of a page must hold."""

    column: str
    operator: Operator
    #: Texts ignore case and may hold ``*`` and ``?``, but for those of keys.
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which page of a table is wanted."""

    #: The columns, in order.
    fields: tuple[str, ...]
    #: Columns that no two rows are all equal in.
    key: tuple[str, ...]
    filters: tuple[Filter, ...] = ()
    #: A text that one of the columns in ``searched`` must hold.
    search: str | None = None
    searched: tuple[str, ...] = ()
    #: Names of columns, with a minus before those that descend; NULL comes last.
    sort: tuple[str, ...] = ()
    #: The last row of the page before: its values of the columns of ``order``.
    after: tuple[Any, ...] | None = None
    limit: int = 100

    @property
    def order(self) -> tuple[str, ...]:
        """The columns of the order, the key last, each with a minus where it descends."""
        named = {each.removeprefix("-"): each for each in reversed(self.sort)}
        first = (each for each in self.sort if named[each.removeprefix("-")] == each)
        return (*first, *(name for name in self.key if name not in named))


class Listed(ABC):
    """Rows of a home that can be listed."""

    @property
    @abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """Their columns."""

    @abstractmethod
    def page(self, home: Home, request: PageRequest) -> pa.Table:
        """Return a page, with one row more where there is a next one."""

    @abstractmethod
    def facet(self, home: Home, request: PageRequest, by: str) -> pa.Table:
        """Return each ``value`` of a column, and its ``count`` of rows, the most frequent first."""


def page_statement(
    source: FromClause, shown: Shown, request: PageRequest, ranks: Shown | None = None
) -> Select[Any]:
    """Return the statement of a page, with one row more where there is a next one.

    Parameters
    ----------
    source : FromClause
        Where rows come from.
    shown : mapping of str to ColumnElement
        Its columns.
    request : PageRequest
        The page.
    ranks : mapping of str to ColumnElement, optional
        What stands for a column in the order, where that is not the column.
    """
    names = [each.removeprefix("-") for each in request.order]
    ranked = [(ranks or shown).get(name, shown[name]) for name in names]
    directions = [(c, each.startswith("-")) for c, each in zip(ranked, request.order, strict=True)]
    order = [(c.desc() if descends else c.asc()).nulls_last() for c, descends in directions]
    columns = [shown[name].label(name) for name in request.fields]
    last = [each.label(rank_of(name)) for each, name in zip(ranked, names, strict=True)]
    chosen = select(*columns, *last).select_from(source).where(*_conditions(shown, request))
    if request.after is not None:
        chosen = chosen.where(_follows(directions, request.after))
    return chosen.order_by(*order).limit(request.limit + 1)


def facet_statement(source: FromClause, shown: Shown, request: PageRequest, by: str) -> Select[Any]:
    """Return the statement of the values of a column, the most frequent first."""
    number = func.count().label("count")
    columns: list[ColumnElement[Any]] = [shown[by].label("value"), number]
    chosen = select(*columns).select_from(source).where(*_conditions(shown, request))
    ordered = chosen.group_by(shown[by]).order_by(number.desc(), shown[by].asc().nulls_last())
    return ordered.limit(request.limit)


def next_after(table: pa.Table, request: PageRequest) -> tuple[Any, ...] | None:
    """Return where the page after one begins; None where there is none.

    Parameters
    ----------
    table : pyarrow.Table
        What ``Listed.page`` returned.
    request : PageRequest
        What it was asked for.
    """
    if table.num_rows <= request.limit:
        return None
    (last,) = table.slice(request.limit - 1, 1).to_pylist()
    return tuple(last[rank_of(name.removeprefix("-"))] for name in request.order)


def rank_of(name: str) -> str:
    """Return the name of the column that holds what a row is ordered by."""
    return f"order by {name}"


def _conditions(shown: Shown, request: PageRequest) -> list[ColumnElement[bool]]:
    result = [_holds(shown[f.column], f, f.column in request.key) for f in request.filters]
    if request.search is not None:
        text = f"%{_escaped(request.search)}%"
        result.append(or_(false(), *(_is_like(shown[name], text) for name in request.searched)))
    return result


def _holds(column: ColumnElement[Any], asked: Filter, is_key: bool) -> ColumnElement[bool]:
    values = asked.values
    if asked.operator == "known":
        return column.is_not(None) if values[0] else column.is_(None)
    if asked.operator == "min":
        return column.operate(operators.ge, values[0])
    if asked.operator == "max":
        return column.operate(operators.le, values[0])
    if asked.operator == "has":
        return or_(*(func.list_contains(column, each) for each in values))
    if asked.operator == "is" and is_key:
        return column.in_(values)
    one_of = or_(*(_equals(column, each) for each in values))
    return one_of if asked.operator == "is" else or_(~one_of, column.is_(None))


def _equals(column: ColumnElement[Any], value: Any) -> ColumnElement[bool]:
    if not isinstance(value, str):
        return column.operate(operators.eq, value)
    return _is_like(column, _escaped(value).replace("*", "%").replace("?", "_"))


def _is_like(column: ColumnElement[Any], pattern: str) -> ColumnElement[bool]:
    return func.lower(column).like(func.lower(pattern), escape="\\")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _follows(
    directions: Sequence[tuple[ColumnElement[Any], bool]], after: Sequence[Any]
) -> ColumnElement[bool]:
    """Return whether a row comes after one with these values of the order."""
    if not directions:
        return false()
    (column, descends), value = directions[0], after[0]
    same_before = _follows(directions[1:], after[1:])
    if value is None:
        # NULL comes last.
        return and_(column.is_(None), same_before)
    if isinstance(value, bool):
        # SQLAlchemy itself compares none with a greater one.
        value = literal(value)
    beyond = column < value if descends else column > value
    return or_(beyond, column.is_(None), and_(column == value, same_before))
