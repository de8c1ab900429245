"""The copy of a home, with the labels of its runs: what a service reads lists and pages from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from catalog.home import Home
from catalog.registry.labels import labels_of
from catalog.store.pages import StoredRows
from catalog.store.projection import Projection
from survey.errors import StoreError

if TYPE_CHECKING:
    import duckdb


@lru_cache(maxsize=4)
def copy_of(home: Home) -> Projection:
    """Return the copy of a home, one for the process."""
    return Projection(home, labels_of)


def copy_now(home: Home) -> None:
    """Bring the copy of a home up to date; whoever asks for it hears of what goes wrong."""
    with suppress(StoreError), copy_of(home).reading():
        pass


class CopiedRows(StoredRows):
    """The rows of a table or view that a copy has."""

    __slots__ = ()

    @contextmanager
    def connected(self, home: Home) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a connection on the copy."""
        with copy_of(home).reading() as connection:
            yield connection
