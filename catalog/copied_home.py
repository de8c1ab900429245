"""The copy of a home, with the labels of its runs: what a service reads lists and pages from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING

from catalog.home import Home
from catalog.registry.labels import labels_of
from catalog.store.pages import StoredRows
from catalog.store.projection import Projection
from catalog.store.reader import Parameters
from survey.errors import StoreError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


#: Threads that ask for one at the same moment would each open it.
_OPENING = Lock()


def copy_of(home: Home) -> Projection:
    """Return the copy of a home, one for the process."""
    with _OPENING:
        return _opened(home)


@lru_cache(maxsize=4)
def _opened(home: Home) -> Projection:
    return Projection(home, labels_of)


def copy_now(home: Home) -> None:
    """Bring the copy of a home up to date, and one for the process that computes answers.

    Whoever asks for them hears of what goes wrong.
    """
    with suppress(StoreError):
        copy_of(home).update()
        copy_of(home).lend()


def query_copy(home: Home, sql: str, parameters: Parameters | None = None) -> pa.Table:
    """Return the rows of one of this program's statements, as of the last ``Projection.update``.

    Its parameters are those of ``catalog.store.reader.query``.
    """
    with copy_of(home).unchanged() as connection:
        return connection.sql(sql, params=parameters).to_arrow_table()


class CopiedRows(StoredRows):
    """The rows of a table or view that a copy has."""

    __slots__ = ()

    @contextmanager
    def connected(self, home: Home) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a connection on the copy."""
        with copy_of(home).reading() as connection:
            yield connection
