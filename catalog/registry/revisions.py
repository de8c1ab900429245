"""The registry's numbered migrations: which there are, which one has, and how they are applied."""

from __future__ import annotations

import functools
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from catalog.home import Home
from catalog.registry.database import connected, file_engine, registry_engine
from survey.errors import NewerError

_FOLDER = Path(__file__).parent / "migrations"

#: The advisory lock under which one process at a time changes a registry on PostgreSQL.
_LOCK = 0x7A6F6F


@functools.cache
def known_revisions() -> list[str]:
    """Return the revisions that this program knows, in order."""
    return sorted(path.name[:4] for path in (_FOLDER / "versions").glob("[0-9]*.py"))


def revision_of(connection: Connection) -> str | None:
    """Return the revision of an open registry; None where it has no tables.

    Raises
    ------
    NewerError
        If this program does not know it.
    """
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    known = known_revisions()
    if revision is not None and revision not in known:
        raise NewerError(
            f"the registry has schema version {revision}, this program knows {known[-1]}",
            hint="upgrade this program, or pass --home with another directory",
        )
    return revision


def check_registry(home: Home) -> None:
    """Go on only with a registry that this program knows, of this or an older version.

    Raises
    ------
    NewerError
        If it is newer.
    StoreError
        If it is no registry.
    """
    with connected(registry_engine(home)) as connection:
        revision_of(connection)


def make_registry(path: Path, revision: str = "head") -> None:
    """Make an empty registry in a file, of this program's or an older revision."""
    # Without the write-ahead log, which a full disk may leave unmerged: one file is all.
    with connected(file_engine(path)) as connection:
        take_turn(connection)
        apply(connection, revision)
        connection.commit()


def take_turn(connection: Connection) -> None:
    """Begin the transaction in which one process at a time changes a registry's tables."""
    connection.commit()
    if connection.dialect.name == "sqlite":
        # Else each table would stay where the disk runs full, or the process dies, at the next.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def apply(connection: Connection, revision: str = "head") -> None:
    """Apply the migrations up to a revision that an open registry lacks."""
    # Imported only when there is something to apply: it takes long.
    from alembic import command
    from alembic.config import Config

    config = Config()
    # The folder's name passes through a config parser, where % has a meaning.
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
