"""The registry's database: opening it, and bringing it to this program's version.

SQLite in the home by default, in WAL mode, so that any process may open it at any time; any other
database that SQLAlchemy knows by URL. Connections are kept open between transactions: opening one
costs more than most transactions do. Owns no table and no row.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Table,
    create_engine,
    event,
    inspect,
    select,
    text,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from catalog.files import appearing
from catalog.home import REPAIR_HINT, Home
from survey.errors import StoreError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from sqlalchemy.dialects import postgresql

#: How long a statement waits for another process's transaction.
BUSY_SECONDS = 30.0

#: Values in one statement's list: every database takes more.
LONGEST_LIST = 5000

#: What SQLite keeps beside a registry.
REGISTRY_LOGS = ("-wal", "-shm", "-journal")

_FOLDER = Path(__file__).parent / "migrations"

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
            raise StoreError(
                f"{home.registry} does not exist",
                hint="`survey doctor --repair` makes it from the store; survey sql and show work"
                " without",
            )
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
        If the registry's URL names a database that cannot be used.
    """
    readable_only = not home.registry_url and home.registry.is_file() and not _writable(home)
    url = home.registry_url or URL.create("sqlite", database=str(home.registry))
    if readable_only:
        # Of a file on a read-only mount SQLite can promise itself that nobody writes it.
        place = f"file:{quote(str(home.registry))}"
        query = {"mode": "ro", "immutable": "1", "uri": "true"}
        url = URL.create("sqlite", database=place, query=query)
    try:
        engine = create_engine(url)
    except (ArgumentError, SQLAlchemyError, ImportError) as error:
        raise StoreError(
            f"the registry cannot be opened: {error}",
            hint="give a URL that SQLAlchemy knows and install the database's driver",
        ) from error
    if engine.dialect.name == "sqlite" and not readable_only:
        event.listen(engine, "connect", _prepare_sqlite)
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
        raise StoreError(
            f"the registry {engine.url.render_as_string()} cannot be used: {cause}",
            hint=f"check that the disk is not full and that it is a registry; {REPAIR_HINT}",
        ) from error


def upgrade_registry(home: Home) -> None:
    """Make the registry's tables, or apply the migrations that they lack.

    A new file appears under its name with all its tables or not at all. One process at a time may
    do this in a home.

    Raises
    ------
    StoreError
        If it is no registry, is newer than this program, or cannot be written.
    """
    if home.registry_url is None and not home.registry.exists():
        with appearing(home.registry, REGISTRY_LOGS) as fresh:
            make_registry(fresh)
    else:
        _bring_up_to_date(registry_engine(home))


def make_registry(path: Path) -> None:
    """Make an empty registry in a file."""
    # Without the write-ahead log, which a full disk may leave unmerged: one file is all.
    _bring_up_to_date(create_engine(URL.create("sqlite", database=str(path))))


def _bring_up_to_date(engine: Engine) -> None:
    try:
        _upgrade(engine)
    finally:
        engine.dispose()


def _upgrade(engine: Engine) -> None:
    known = sorted(path.name[:4] for path in (_FOLDER / "versions").glob("[0-9]*.py"))
    with explained_registry(engine), engine.connect() as connection:
        revision = None
        if inspect(connection).has_table("alembic_version"):
            revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        if revision == known[-1]:
            return
        if revision is not None and revision not in known:
            raise StoreError(
                f"the registry has schema version {revision}, this program knows {known[-1]}",
                hint="upgrade this program, or pass --home with another directory",
            )
        connection.commit()
        if engine.dialect.name == "sqlite":
            # Else each table would stay where the disk runs full, or the process dies, at the next.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        _apply(connection)
        connection.commit()


def _apply(connection: Any) -> None:
    # Imported only when there is something to apply: it takes long.
    from alembic import command
    from alembic.config import Config

    config = Config()
    # The folder's name passes through a config parser, where % has a meaning.
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000)}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()
