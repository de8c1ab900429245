"""The signature store's numbered migrations: which there are, which a file has, applying the rest.

The files below ``migrations/signatures`` are applied in order, each in one transaction. The
registry's own lie below ``migrations/registry`` and are applied by ``catalog.registry.registry``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb

from catalog.files import appearing
from catalog.store.connection import connect_reading, connect_writing, explained
from survey.errors import StoreError

_FOLDER = Path(__file__).parent / "migrations"


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
    found = []
    for path in sorted(_FOLDER.glob("[0-9]*.sql")):
        number, _, name = path.stem.partition("_")
        found.append(Migration(int(number), name, path.read_text(encoding="utf-8")))
    return found


def make_store(path: Path) -> None:
    """Make an empty store, which appears under its name whole or not at all."""
    with (
        appearing(path, logs=(".wal",)) as fresh,
        explained(fresh),
        duckdb.connect(fresh) as connection,
    ):
        _apply(connection, migrations())
        # Closing does so too, but says nothing where the disk is full, and the file is empty.
        connection.execute("CHECKPOINT").fetchall()


def upgrade_store(path: Path, timeout_seconds: float = 30.0) -> None:
    """Apply the migrations that an existing store lacks.

    Raises
    ------
    StoreError
        If the file is no store of ours, is newer than this program, or is busy.
    """
    with connect_reading(path, timeout_seconds) as reader:
        version = check_version(reader, path, allow_older=True)
    missing = [migration for migration in migrations() if migration.version > version]
    if not missing:
        return
    connection = connect_writing(path)
    if connection is None:
        raise StoreError(
            f"{path} has to be upgraded from version {version}, but another process has it open",
            hint="close the programs that have it open and run the same command again",
        )
    with connection, explained(path):
        _apply(connection, missing)


def check_version(
    connection: duckdb.DuckDBPyConnection, path: Path, *, allow_older: bool = False
) -> int:
    """Return the schema version of an open store, refusing one this program does not understand.

    Raises
    ------
    StoreError
        If the file is no store of ours, or its schema is of another version.
    """
    newest = migrations()[-1].version
    with explained(path):
        tables = connection.execute(
            "SELECT count(*) FROM duckdb_tables()"
            " WHERE database_name = current_database() AND table_name = 'migrations'"
        ).fetchall()
        if tables[0][0] == 0:
            raise StoreError(
                f"{path} is a DuckDB file of something else: it has no table `migrations`",
                hint="move the file away, or pass --home with another directory",
            )
        rows = connection.execute("SELECT coalesce(max(version), 0) FROM migrations").fetchall()
    version = int(rows[0][0])
    if version > newest:
        raise StoreError(
            f"{path} has schema version {version}, this program knows versions up to {newest}",
            hint="upgrade this program, or pass --home with another directory",
        )
    if version < newest and not allow_older:
        raise StoreError(
            f"{path} has schema version {version}, this program needs {newest}",
            hint="open the home once with `survey run`, which upgrades it",
        )
    return version


def _apply(connection: duckdb.DuckDBPyConnection, missing: list[Migration]) -> None:
    for migration in missing:
        connection.execute("BEGIN").fetchall()
        connection.execute(migration.sql).fetchall()
        connection.execute(
            "INSERT INTO migrations VALUES (?, ?, now())", [migration.version, migration.name]
        ).fetchall()
        connection.execute("COMMIT").fetchall()
