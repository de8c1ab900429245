"""Pages of the signature store's tables and views, and of tables in memory.

Checkpoints and datasets are shown, and filtered by, without the folders that they lie in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from catalog.home import Home
from catalog.paging import Listed, PageRequest, facet_statement
from catalog.store.page_queries import page_in_two, page_of, result, source
from catalog.store.reader import reading, refusing
from catalog.store.schema import Relation
from survey.column_fields import Column

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class StoredRows(Listed):
    """The rows of a table or view of the store."""

    relation: Relation
    #: Whether it has so many rows that their columns are read for those of a page alone.
    is_wide: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the table or view."""
        return self.relation.columns

    def page(self, home: Home, request: PageRequest) -> pa.Table:
        """Return a page; see ``Listed``."""
        with self.connected(home) as connection:
            page = page_in_two if self.is_wide else page_of
            return page(connection, self.relation, request)

    def facet(self, home: Home, request: PageRequest, by: str) -> pa.Table:
        """Return the values of a column; see ``Listed``."""
        with self.connected(home) as connection:
            return result(connection, facet_statement(*source(self.relation), request, by))

    @contextmanager
    def connected(self, home: Home) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a connection to read from."""
        with reading(home) as connection, refusing(home.signatures):
            yield connection


@dataclass(frozen=True, slots=True)
class RowsInMemory(Listed):
    """The rows of a table that is made when it is asked for."""

    declared: tuple[Column, ...]
    #: Makes it.
    table: Callable[[Home], pa.Table]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are declared."""
        return self.declared

    def page(self, home: Home, request: PageRequest) -> pa.Table:
        """Return a page; see ``Listed``."""
        with self._connected(home) as (connection, relation):
            return page_of(connection, relation, request)

    def facet(self, home: Home, request: PageRequest, by: str) -> pa.Table:
        """Return the values of a column; see ``Listed``."""
        with self._connected(home) as (connection, relation):
            return result(connection, facet_statement(*source(relation), request, by))

    @contextmanager
    def _connected(self, home: Home) -> Iterator[tuple[duckdb.DuckDBPyConnection, Relation]]:
        with duckdb.connect() as connection:
            connection.register("rows_in_memory", self.table(home))
            yield connection, Relation("rows_in_memory", "", self.columns)
