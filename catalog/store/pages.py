"""Pages of the signature store's tables and views, and of tables in memory.

Checkpoints and datasets are shown, and filtered by, without the folders that they lie in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from catalog.home import Home
from catalog.paging import Listed, PageRequest, facet_statement
from catalog.store.page_queries import page_in_two, page_of, page_of_runs, result, source
from catalog.store.reader import reading, refusing
from catalog.store.schema import Relation
from survey.column_fields import Column

if TYPE_CHECKING:
    import pyarrow as pa

    from catalog.tags import RunLabels


@dataclass(frozen=True, slots=True)
class StoredRows(Listed):
    """The rows of a table or view of the store."""

    relation: Relation
    #: Whether every score of the runs that it shows is read for it.
    of_scores: bool = False

    #: Whether it has so many rows that their columns are read for those of a page alone.
    is_wide: bool = False
    #: Returns the labels and tags of runs, for a view that is shown with them.
    labels: Callable[[Home], Mapping[str, RunLabels]] | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the table or view."""
        return self.relation.columns

    def page(self, home: Home, request: PageRequest) -> pa.Table:
        """Return a page; see ``Listed``."""
        with self._connected(home) as connection:
            if self.of_scores:
                return page_of_runs(connection, self.relation, request)
            if self.is_wide:
                return page_in_two(connection, self.relation, request)
            return page_of(connection, self.relation, request)

    def facet(self, home: Home, request: PageRequest, by: str) -> pa.Table:
        """Return the values of a column; see ``Listed``."""
        with self._connected(home) as connection:
            return result(connection, facet_statement(*source(self.relation), request, by))

    @contextmanager
    def _connected(self, home: Home) -> Iterator[duckdb.DuckDBPyConnection]:
        labels = self.labels(home) if self.labels else None
        with reading(home, labels=labels) as connection, refusing(home.signatures):
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
