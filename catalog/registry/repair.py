"""Repair of the registry: what can be read of a damaged one is kept, the rest made from the store.

For a registry that is a file in the home; another database has tools of its own. What only the
registry holds, such as schedules and tags, is kept as far as it can be read; jobs are known to the
store, and a survey that is run again writes the labels and tags that it declares.
"""

# ruff: noqa: S608 - the names in these statements are those of the declared tables

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Table

from catalog.files import replacing_damaged
from catalog.home import Home
from catalog.registry.address import reading_address
from catalog.registry.database import BUSY_SECONDS, REGISTRY_LOGS
from catalog.registry.revisions import make_registry
from catalog.registry.tables import METADATA
from survey.errors import StoreError

#: Ids of rows are below this power of two.
_POWERS = 41

#: A span of rows that cannot be read is halved down to this part of its ids.
_SPANS = 4096


@dataclass(frozen=True, slots=True)
class RegistryRepair:
    """What became of a damaged registry."""

    #: Where the damaged file is now; None where there was none.
    aside: Path | None
    #: Rows read from it, by table.
    kept: dict[str, int]
    #: Tables of which some rows, or none, could be read.
    torn: tuple[str, ...]
    #: Jobs that were made from the store.
    made: int


def registry_damage(home: Home) -> str | None:
    """Return what keeps the registry's file from being read; None where nothing does.

    Only a copy is looked at: SQLite may write to a file that it reads.
    """
    if not home.registry.is_file():
        return "it is missing"
    with _snapshot(home.registry) as connection:
        try:
            return _integrity(connection)
        except sqlite3.Error as error:
            return str(error)


def _integrity(connection: sqlite3.Connection) -> str | None:
    """Return the first damage that SQLite sees."""
    ((result, *_), *_) = connection.execute("PRAGMA integrity_check(1)").fetchall()
    connection.execute("SELECT version_num FROM alembic_version").fetchall()
    lines = (line for line in str(result).splitlines() if not line.startswith("***"))
    return None if result == "ok" else next(lines, str(result))


def repair_registry(home: Home, runs: list[Mapping[str, Any]]) -> RegistryRepair:
    """Put a registry in a damaged one's place with what can be read of it and the store's jobs.

    Parameters
    ----------
    home : Home
        Where it lies.
    runs : list of mapping
        The rows of the store's runs.

    Raises
    ------
    StoreError
        If the new registry cannot be written; then the damaged one is still in its place.
    """
    with replacing_damaged(home.registry, REGISTRY_LOGS, sqlite3.Error) as (fresh, aside):
        make_registry(fresh)
        with closing(sqlite3.connect(fresh)) as new:
            kept, torn = _salvage(new, aside)
            made = _add_jobs(new, runs)
            new.commit()
    return RegistryRepair(aside, kept, torn, made)


def _salvage(new: sqlite3.Connection, aside: Path | None) -> tuple[dict[str, int], tuple[str, ...]]:
    kept: dict[str, int] = {}
    torn: list[str] = []
    if aside is None:
        return kept, ()
    with _copy(aside) as damaged:
        for table in METADATA.sorted_tables:
            columns = _columns(damaged, table)
            names, places = ", ".join(columns), ", ".join("?" * len(columns))
            rows, whole = _rows(damaged, table.name, names)
            for row in rows:
                with suppress(sqlite3.Error):
                    new.execute(
                        f"INSERT OR IGNORE INTO {table.name} ({names}) VALUES ({places})", row
                    )
            kept[table.name] = len(rows)
            if not whole:
                torn.append(table.name)
        # Such as an attempt at a job that cannot be read.
        for table_name, rowid, *_ in new.execute("PRAGMA foreign_key_check").fetchall():
            new.execute(f"DELETE FROM {table_name} WHERE rowid = ?", [rowid])
    return kept, tuple(torn)


def _columns(damaged: sqlite3.Connection, table: Table) -> list[str]:
    """Return the columns of a table that can be read: an older program's has fewer."""
    with suppress(sqlite3.Error):
        there = {name for _, name, *_ in damaged.execute(f"PRAGMA table_info({table.name})")}
        return [column.name for column in table.columns if column.name in there]
    return []


def _rows(damaged: sqlite3.Connection, table: str, names: str) -> tuple[list[Any], bool]:
    """Return the rows that can be read, and whether these are all."""
    if not names:
        return [], _lacks(damaged, table)
    rows: list[Any] = []
    whole = True
    # With a limit, the last row of a page is read without a look at the next page.
    wanted = f"SELECT {names} FROM {table} WHERE rowid >= ?1 AND rowid < ?2 LIMIT ?2 - ?1"
    # Of the last id nothing is known where the last page is damaged.
    spans = [(1 << power >> 1, 1 << power) for power in reversed(range(_POWERS))]
    while spans:
        first, stop = spans.pop()
        try:
            rows += damaged.execute(wanted, (first, stop)).fetchall()
        except sqlite3.Error:
            whole = False
            if stop - first > max(first // _SPANS, 1):
                middle = (first + stop) // 2
                spans += [(middle, stop), (first, middle)]
    return rows, whole


def _lacks(damaged: sqlite3.Connection, table: str) -> bool:
    """Return whether a registry never had a table, as an older program's."""
    try:
        tables = {name for (name,) in damaged.execute("SELECT name FROM sqlite_master").fetchall()}
    except sqlite3.Error:
        return False
    return "alembic_version" in tables and table not in tables


def _add_jobs(new: sqlite3.Connection, runs: list[Mapping[str, Any]]) -> int:
    """Add the jobs of the store's runs that are not known; return how many."""
    now = datetime.now(UTC).replace(tzinfo=None).isoformat(sep=" ")
    before = new.total_changes
    for run in runs:
        if run["job_key"] is None:
            continue
        values = {
            "key": run["job_key"],
            **{name: run[name] for name in ("run_id", "architecture", "source", "checkpoint")},
            "dataset": run["dataset"],
            "settings": run["settings"] or json.dumps({}),
            "state": end if (end := run["status"]) in ("done", "failed", "cancelled") else "todo",
            "losses": 0,
            "created_at": now,
            "updated_at": now,
        }
        names, places = ", ".join(values), ", ".join("?" * len(values))
        new.execute(f"INSERT OR IGNORE INTO jobs ({names}) VALUES ({places})", [*values.values()])
    return new.total_changes - before


@contextmanager
def _snapshot(path: Path) -> Iterator[sqlite3.Connection]:
    """Give a connection on a copy of a registry as it is at one moment, whoever writes it."""
    with closing(sqlite3.connect("")) as copy:
        try:
            place = reading_address(path)
            with closing(sqlite3.connect(place, uri=True, timeout=BUSY_SECONDS)) as source:
                # Page by page, whatever is in them.
                source.backup(copy)
        except (sqlite3.Error, StoreError):
            # So damaged that SQLite opens it for nobody, or a copy without its log's index.
            with _copy(path) as connection:
                yield connection
            return
        yield copy


@contextmanager
def _copy(path: Path) -> Iterator[sqlite3.Connection]:
    """Give a connection on a copy of a registry and of what SQLite keeps beside it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "registry.sqlite")
        for ending in ("", "-wal", "-journal"):
            with suppress(FileNotFoundError):
                shutil.copyfile(
                    path.with_name(path.name + ending), copy.with_name(copy.name + ending)
                )
        with closing(sqlite3.connect(copy)) as connection:
            yield connection
