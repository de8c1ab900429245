"""Copies of a registry: to a file of SQLite from any database, and from such a file to another.

A file is copied as SQLite backs one up while others write. From and to another database rows are
copied table by table, within one transaction on either side, between tables of the same revision.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import JSON, Connection, MetaData, Table, func, inspect, select

from catalog.home import REPAIR_HINT, Home
from catalog.registry.address import reading_address
from catalog.registry.database import (
    BUSY_SECONDS,
    connected,
    explained_registry,
    file_engine,
    no_registry,
    registry_engine,
)
from catalog.registry.revisions import apply, make_registry, revision_of, take_turn
from survey.errors import SettingsError, StoreError

#: Rows that are in memory at a time.
_PORTION = 1000


def copy_to_file(home: Home, target: Path) -> None:
    """Copy a home's registry, as it is at one moment, to a new file of SQLite.

    Raises
    ------
    StoreError
        If there is none, or it cannot be read.
    """
    if home.registry_url is None:
        _back_up(home, target)
        return
    still = registry_engine(home).execution_options(isolation_level="REPEATABLE READ")
    with connected(still) as source:
        revision = revision_of(source)
        if revision is None:
            raise no_registry(home)
        make_registry(target, revision)
        with connected(file_engine(target)) as copy:
            _copy_rows(source, copy, _names(copy))
            copy.commit()


def copy_from_file(file: Path, home: Home) -> None:
    """Copy a registry in a file of SQLite to the database that a home's URL names.

    Raises
    ------
    SettingsError
        If that database has a registry already.
    StoreError
        If it cannot be used; then it has none of the rows.
    """
    with connected(file_engine(file)) as rows:
        revision, names = revision_of(rows) or "head", _names(rows)
        with connected(registry_engine(home)) as connection:
            take_turn(connection)
            if revision_of(connection) is not None:
                raise holds_another()
            apply(connection, revision)
            _copy_rows(rows, connection, names)
            _advance_numbers(connection, names)
            connection.commit()


def holds_another() -> SettingsError:
    """Return the error for a database with the registry of another home."""
    return SettingsError(
        "the database that was named holds the registry of another home",
        hint="name another database, or another schema: ?options=-csearch_path%3DNAME",
    )


def _back_up(home: Home, target: Path) -> None:
    if not home.registry.is_file():
        raise no_registry(home)
    place = reading_address(home.registry)
    try:
        with (
            closing(sqlite3.connect(place, uri=True, timeout=BUSY_SECONDS)) as source,
            closing(sqlite3.connect(target)) as copy,
        ):
            source.backup(copy)
            # One file is all, whatever kept a log beside the other.
            copy.execute("PRAGMA journal_mode = DELETE").fetchall()
    except sqlite3.Error as error:
        raise StoreError(
            f"the registry {home.registry} cannot be copied: {error}",
            hint=f"free some disk space; {REPAIR_HINT}",
        ) from error


def _copy_rows(source: Connection, target: Connection, names: Sequence[str]) -> None:
    """Copy the rows of some tables to the tables of the same names, which are empty."""
    # Both are open: what fails is explained by the one that is read, or by the caller's.
    with explained_registry(source.engine):
        rows = _reflected(source, names)
    for table in _reflected(target, names).sorted_tables:
        for portion in _portions(source, rows.tables[table.name]):
            target.execute(table.insert(), portion)


def _portions(source: Connection, table: Table) -> Iterator[list[dict[str, Any]]]:
    with explained_registry(source.engine):
        rows = source.execute(select(table).execution_options(yield_per=_PORTION)).mappings()
        for portion in rows.partitions():
            yield [dict(row) for row in portion]


def _names(file: Connection) -> list[str]:
    """Return the tables of a registry in a file, but for that of its revision."""
    return [name for name in inspect(file).get_table_names() if name != "alembic_version"]


def _reflected(connection: Connection, names: Sequence[str]) -> MetaData:
    tables = MetaData()
    tables.reflect(connection, only=names)
    for column in (column for table in tables.sorted_tables for column in table.columns):
        if isinstance(column.type, JSON):
            # A missing value stays one, not the text `null`.
            column.type.none_as_null = True
    return tables


def _advance_numbers(connection: Connection, names: Sequence[str]) -> None:
    """Let numbers that a database hands out go on behind those that were copied."""
    for table in _reflected(connection, names).sorted_tables:
        for column in table.primary_key.columns:
            numbers = connection.scalar(
                select(func.pg_get_serial_sequence(table.name, column.name))
            )
            highest = connection.scalar(select(func.max(column))) if numbers else None
            if highest is not None:
                connection.execute(select(func.setval(numbers, highest)))
