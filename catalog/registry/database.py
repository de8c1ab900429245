"""The registry's database: opening it, and what goes wrong with it.

SQLite in the home by default, in WAL mode, so that any process may open it at any time; PostgreSQL
by URL. Connections are kept open between transactions: opening one costs more than most
transactions do. Owns no table and no row.
"""

from __future__ import annotations

import dataclasses
import os
import sqlite3
import warnings
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Table,
    create_engine,
    event,
    select,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from catalog.home import REPAIR_HINT, Home
from catalog.registry.address import reading_address
from survey.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

    from _typeshed import DataclassInstance
    from sqlalchemy.dialects import postgresql

#: How long a statement waits for another process's transaction.
BUSY_SECONDS = 30.0

#: How long a server on the network may take to answer a new connection.
CONNECTING_SECONDS = 10

#: What to do about a registry on a server.
_SERVER_HINT = (
    "check that PostgreSQL runs there and lets this user in (PGPASSWORD, ~/.pgpass), then run the"
    " same command again: finished batches are kept"
)

#: Values in one statement's list: every database takes more.
LONGEST_LIST = 5000

#: What SQLite keeps beside a registry.
REGISTRY_LOGS = ("-wal", "-shm", "-journal")

_Item = TypeVar("_Item")
_Row = TypeVar("_Row", bound="DataclassInstance")


class Database:
    """The registry's connections: what its parts share.

    Threads may share one. A process that was forked opens connections of its own.

    Parameters
    ----------
    home : Home
        An opened home.

    Raises
    ------
    StoreError
        If there is no registry, or its URL names a database that cannot be used.
    """

    def __init__(self, home: Home) -> None:
        if home.registry_url is None and not home.registry.is_file():
            raise no_registry(home)
        self._engine = registry_engine(home)
        self._unclosed = weakref.finalize(self, _dispose_unclosed, self._engine)
        _KEPT.add(self._engine)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Give a connection in a transaction, which is committed at the end.

        Raises
        ------
        StoreError
            If the database cannot be used.
        """
        with explained_registry(self._engine), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self, table: Table) -> Iterator[Connection]:
        """Give a connection in a transaction beside which no other writes to a table.

        What is read in it is still so when it writes.
        """
        with self.transaction() as connection:
            if self._engine.dialect.name == "postgresql":
                lock = f'LOCK TABLE "{table.name}" IN SHARE ROW EXCLUSIVE MODE'
                connection.exec_driver_sql(lock)
            else:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    def rows(
        self,
        kind: type[_Row],
        table: Table,
        *conditions: ColumnElement[bool],
        order: Sequence[ColumnElement[Any]],
        most: int | None = None,
    ) -> list[_Row]:
        """Return rows of a table as the dataclass that declares its columns."""
        wanted = select(*(table.c[field.name] for field in dataclasses.fields(kind)))
        wanted = wanted.where(*conditions).order_by(*order).limit(most)
        with self.transaction() as connection:
            return [kind(*row) for row in connection.execute(wanted)]

    def insert(self, table: Table) -> sqlite.Insert | postgresql.Insert:
        """Return an insert that can be given what to do where a row exists."""
        if self._engine.dialect.name != "postgresql":
            return sqlite.insert(table)
        # Imported only where it is used: it takes as long as a query.
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)

    def upsert(
        self,
        table: Table,
        key: dict[str, Any],
        values: dict[str, Any],
        where: ColumnElement[bool] | None = None,
    ) -> None:
        """Insert a row, or bring the one with this key up to date where a condition holds."""
        new = self.insert(table).values(**key, **values)
        with self.transaction() as connection:
            connection.execute(
                new.on_conflict_do_update(index_elements=list(key), set_=values, where=where)
            )

    def close(self) -> None:
        """Close the connections."""
        self._unclosed.detach()
        self._engine.dispose()


def no_registry(home: Home) -> StoreError:
    """Return the error for a home without a registry."""
    return StoreError(
        f"{home.registry} does not exist",
        hint="`survey doctor --repair` makes it from the store; survey sql and show work without",
    )


def _dispose_unclosed(engine: Engine) -> None:
    engine.dispose()
    warnings.warn(f"the registry {engine.url} was not closed", ResourceWarning, stacklevel=2)


_KEPT: weakref.WeakSet[Engine] = weakref.WeakSet()


def _forget_all() -> None:
    """Leave the connections to the process that this one was forked from."""
    for engine in list(_KEPT):
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_forget_all)


def values_of(entry: DataclassInstance, kind: type[DataclassInstance]) -> dict[str, Any]:
    """Return the columns that a class declares, not those that a subclass of the entry adds."""
    return {field.name: getattr(entry, field.name) for field in dataclasses.fields(kind)}


def portions(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Cut items into lists that one statement can hold."""
    rest = list(items)
    for first in range(0, len(rest), LONGEST_LIST):
        yield rest[first : first + LONGEST_LIST]


def registry_engine(home: Home) -> Engine:
    """Return the engine of the home's registry; opens nothing yet.

    Raises
    ------
    StoreError
        If the driver of the registry's database is missing.
    """
    if home.registry_url:
        return _server_engine(make_url(home.registry_url))
    if not home.registry.is_file() or _writable(home):
        engine = file_engine(home.registry)
        event.listen(engine, "connect", _prepare_sqlite)
        return engine
    return create_engine(
        URL.create("sqlite", database=str(home.registry)),
        creator=lambda: sqlite3.connect(
            reading_address(home.registry), uri=True, check_same_thread=False
        ),
    )


def file_engine(path: Path) -> Engine:
    """Return the engine of a registry in a file of SQLite, as it is; opens nothing yet."""
    return create_engine(URL.create("sqlite", database=str(path)))


def _server_engine(url: URL) -> Engine:
    if "connect_timeout" not in url.query:
        url = url.update_query_dict({"connect_timeout": str(CONNECTING_SECONDS)})
    try:
        # Asked whether it still stands before it is used: a scan outlives a server's restart.
        engine = create_engine(url, pool_pre_ping=True)
    except ImportError as error:
        raise StoreError(
            f"the registry on PostgreSQL needs a driver: {error}",
            hint="install it: pip install 'psycopg[binary]'",
        ) from error
    event.listen(engine, "connect", _prepare_server)
    return engine


def _writable(home: Home) -> bool:
    return os.access(home.path, os.W_OK) and os.access(home.registry, os.W_OK)


@contextmanager
def explained_registry(engine: Engine) -> Iterator[None]:
    """Turn what the database raises into a ``StoreError``."""
    try:
        yield
    except SQLAlchemyError as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        # As its user gave it: without the driver and what is added to it.
        url = engine.url.set(drivername=engine.url.get_backend_name())
        shown = url.difference_update_query(["connect_timeout"]).render_as_string()
        raise StoreError(
            f"the registry {shown} cannot be used: {' '.join(str(cause).split())}",
            hint=_SERVER_HINT
            if engine.dialect.name == "postgresql"
            else f"check that the disk is not full and that it is a registry; {REPAIR_HINT}",
        ) from error


@contextmanager
def connected(engine: Engine) -> Iterator[Connection]:
    """Give the one connection of an engine, which is disposed of; nothing is committed.

    Raises
    ------
    StoreError
        If the database cannot be used: what it or the caller's block raises is this engine's.
    """
    try:
        with explained_registry(engine), engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def _prepare_server(connection: Any, _record: Any) -> None:
    with connection.cursor() as cursor:
        # Moments without a zone, as SQLite has them, are copied in UTC.
        cursor.execute("SET TIME ZONE 'UTC'")
        cursor.execute(f"SET lock_timeout = '{int(BUSY_SECONDS)}s'")
    connection.commit()


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()
