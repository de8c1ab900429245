"""The signature store's numbered migrations: which there are, which a file has, applying the rest.

The files below ``migrations`` that a store lacks are applied in order, all in one transaction,
after a copy of the store was kept. They change tables; the views are then made as they are
declared, so that the file of a change of views alone says no more than what changed. A new metric
needs no file: its column is added where the store is opened for writing, and the version stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from catalog.copies import copy_file, kept_before_migration
from catalog.files import appearing
from catalog.store.connection import attached, connect_reading, explained, stored_tables, writing
from catalog.store.temporary_views import extra_columns, show_views
from survey.errors import NewerError, StoreError

if TYPE_CHECKING:
    from survey.column_fields import Column

_FOLDER = Path(__file__).parent / "migrations"

#: The oldest version that can be read as it is: later ones changed views alone, or added columns
#: to a table or a table, all of which a reader makes anew.
READABLE = 1


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered change of the schema."""

    #: Its number, counting from 1.
    version: int
    #: Its file's name without number and ending.
    name: str
    #: Its statements.
    sql: str


def migrations() -> list[Migration]:
    """Return every migration this program knows, in order."""
    known = []
    for path in sorted(_FOLDER.glob("[0-9]*.sql")):
        number, _, name = path.stem.partition("_")
        known.append(Migration(int(number), name, path.read_text(encoding="utf-8")))
    return known


def newest_version() -> int:
    """Return the version of the schema that this program writes."""
    return migrations()[-1].version


def make_store(path: Path) -> None:
    """Make an empty store, which appears under its name whole or not at all."""
    with (
        appearing(path, logs=(".wal",)) as fresh,
        explained(fresh),
        attached(fresh) as connection,
    ):
        _apply(connection, migrations())
        # Closing does so too, but says nothing where the disk is full, and the file is empty.
        connection.execute("CHECKPOINT").fetchall()


def upgrade_store(path: Path) -> None:
    """Apply the migrations that an existing store lacks, and add columns of new metrics.

    Raises
    ------
    StoreError
        If the file is no store of ours, is newer than this program, is busy, or cannot be copied.
    """
    with connect_reading(path) as reader:
        version = check_version(reader, path, oldest=0)
        missing = [migration for migration in migrations() if migration.version > version]
        with explained(path):
            if not missing and not _missing_metrics(reader):
                return
    # Closed after the connection: closing any descriptor of a file ends the process's locks on it.
    with path.open("rb") as source, writing(path) as connection:
        if connection is None and not missing:
            # The first merge adds the columns.
            return
        if connection is None:
            raise StoreError(
                f"{path} has to be upgraded from version {version}, but another process has it"
                " open",
                hint="close the programs that have it open and run the same command again",
            )
        if missing:
            with kept_before_migration(path, version) as copy:
                copy_file(source, copy)
        _apply(connection, missing)


def add_metrics(connection: duckdb.DuckDBPyConnection, names: Iterable[str] = ()) -> None:
    """Add a column for each metric that the stored scores and the views on them lack.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Open on the store for writing, outside of a transaction.
    names : iterable of str
        Metrics that were measured, also where they are not installed here.
    """
    if _missing_metrics(connection, names):
        _apply(connection, (), names)


def lacks_metrics(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether the stored scores lack a metric of this program: one of a package is extra."""
    from catalog.store.schema import METRIC_COLUMNS

    return bool(_not_stored(connection, METRIC_COLUMNS))


def _missing_metrics(
    connection: duckdb.DuckDBPyConnection, names: Iterable[str] = ()
) -> list[Column]:
    # Imported here: a reader that needs no metric loads no extension.
    from catalog.store.schema import METRIC_COLUMNS, installed_columns

    declared = (*METRIC_COLUMNS, *installed_columns())
    by_name = {column.name: column for column in (*extra_columns(connection, names), *declared)}
    return _not_stored(connection, by_name.values())


def _not_stored(connection: duckdb.DuckDBPyConnection, columns: Iterable[Column]) -> list[Column]:
    stored = {name for name, *_ in connection.execute("DESCRIBE batch_scores").fetchall()}
    return [column for column in columns if column.name not in stored]


def check_version(
    connection: duckdb.DuckDBPyConnection, path: Path, *, oldest: int | None = None
) -> int:
    """Return the schema version of an open store, refusing one this program does not understand.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Open on the store.
    path : Path
        Its file, for messages.
    oldest : int, optional
        The oldest version that will do; by default the newest alone.

    Raises
    ------
    StoreError
        If the file is no store of ours, or its schema is of another version.
    """
    newest = newest_version()
    with explained(path):
        if "migrations" not in stored_tables(connection):
            raise StoreError(
                f"{path} is a DuckDB file of something else: it has no table `migrations`",
                hint="move the file away, or pass --home with another directory",
            )
        rows = connection.execute("SELECT coalesce(max(version), 0) FROM migrations").fetchall()
    version = int(rows[0][0])
    if version > newest:
        raise NewerError(
            f"{path} has schema version {version}, this program knows versions up to {newest}",
            hint="upgrade this program, or pass --home with another directory",
        )
    if version < (newest if oldest is None else oldest):
        raise StoreError(
            f"{path} has schema version {version}, this program needs {newest}",
            hint="open the home once with `survey run`, which upgrades it",
        )
    return version


def _apply(
    connection: duckdb.DuckDBPyConnection, missing: Iterable[Migration], names: Iterable[str] = ()
) -> None:
    from catalog.store.schema import column_comment, quoted_name

    connection.execute("BEGIN").fetchall()
    for migration in missing:
        for statement in connection.extract_statements(migration.sql):
            connection.execute(statement).fetchall()
        connection.execute(
            "INSERT INTO migrations VALUES (?, ?, now())", [migration.version, migration.name]
        ).fetchall()
    for column in _missing_metrics(connection, names):
        name = quoted_name(column.name)
        connection.execute(f"ALTER TABLE batch_scores ADD COLUMN {name} DOUBLE").fetchall()
        connection.execute(column_comment("batch_scores", column)).fetchall()
    show_views(connection, extra_columns(connection), "OR REPLACE")
    connection.execute("COMMIT").fetchall()
