"""Repair of the signature store: a damaged file is set aside, and what can be read is kept.

A new store is made beside it of three parts: the tables of the damaged file, row group by row
group, as far as they can be read; the store's log; and, by the next merge, the spool. A batch of
which some scores are lost is left out whole, and a run that lost batches is no longer done: it is
measured where it lacks them. The new store takes the place of the damaged one in one step.
"""

# ruff: noqa: S608 - every name in these statements is declared in catalog.store.schema

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb

from catalog.files import replacing_damaged
from catalog.home import Home, segment_paths
from catalog.store.connection import connect_reading, stored_tables
from catalog.store.schema import (
    BATCH_SCORES,
    BATCHES,
    NETWORK_CURVES,
    NETWORK_SCORES,
    RUNS,
    SEGMENTS,
    quoted_name,
    quoted_text,
)
from catalog.store.segments import read_segment
from catalog.store.undo import lock_path
from catalog.store.upgrade import add_metrics, check_version, make_store
from catalog.store.writer import merge_segments, next_part
from survey.errors import StoreError
from survey.text import first_line

#: What DuckDB and its writer keep beside a store.
STORE_LOGS = (".wal", ".undo")

#: Rows that are read together: fewer only where these cannot be read.
_GROUP_ROWS, _LEAST_ROWS = 122_880, 2048

#: Spans that a table of fewer rows has: a merge's rows are few, and lie in blocks of their own.
_SPANS = 2048

_TABLES = (RUNS, BATCHES, BATCH_SCORES, NETWORK_SCORES, NETWORK_CURVES)

# A batch of a run has as many scores as any other; a last, partial one has none.
_DROP_TORN_BATCHES = """
CREATE TEMP TABLE whole AS
WITH counts AS (SELECT run_id, batch, count(*) AS scores FROM batch_scores GROUP BY ALL)
SELECT counts.run_id, batch FROM counts
JOIN (SELECT run_id, max(scores) AS most FROM counts GROUP BY run_id) USING (run_id)
LEFT JOIN runs USING (run_id) WHERE scores >= greatest(most, coalesce(runs.sites, 0))
UNION ALL
SELECT run_id, batch FROM batches QUALIFY images < max(images) OVER (PARTITION BY run_id);
DELETE FROM batches WHERE (run_id, batch) NOT IN (FROM whole);
DELETE FROM batch_scores WHERE (run_id, batch) NOT IN (SELECT (run_id, batch) FROM batches)
"""

_DROP_UNFOUNDED_RUNS = """
DELETE FROM runs WHERE status = 'done' AND batches > (
  SELECT count(*) FROM batches WHERE batches.run_id = runs.run_id)
"""


# Which curve lost points is not known, and of a lost one not even whose it was: where they are
# asked for, measures are computed again.
_DROP_TORN_CURVES = "DELETE FROM network_scores; DELETE FROM network_curves"

_DROP_LONE_CURVES = """
DELETE FROM network_curves WHERE (run_id, measure) NOT IN (
  SELECT (run_id, measure) FROM network_scores)
"""


@dataclass(frozen=True, slots=True)
class StoreRepair:
    """What became of a damaged store."""

    #: Where the damaged file is now; None where there was none.
    aside: Path | None
    #: Rows read from it, by table.
    kept: dict[str, int]
    #: Rows it had beyond those, by table; None where it does not say how many.
    lost: dict[str, int | None]
    #: Segments of the log that were merged, and those that could not be read.
    merged: int
    unread: int


def store_damage(path: Path) -> str | None:
    """Return what keeps a store from being read, every row of it; None where nothing does.

    Raises
    ------
    StoreError
        If it is busy, not this user's to read, newer than this program, or something else.
    """
    if not path.is_file():
        return "it is missing"
    if not os.access(path, os.R_OK | os.W_OK):
        raise StoreError(f"{path} may not be read and written", hint="check its permissions")
    try:
        with connect_reading(path) as connection:
            check_version(connection, path, oldest=0)
            present = stored_tables(connection)
            for table in (*_TABLES, SEGMENTS):
                if table is NETWORK_CURVES and table.name not in present:
                    continue  # an older store has none
                connection.execute(f"SELECT bit_xor(hash(t)) FROM {table.name} AS t").fetchall()
    except duckdb.Error as error:
        return first_line(error)
    except StoreError as error:
        if isinstance(error.__cause__, duckdb.Error):
            return first_line(error.__cause__)
        raise
    return None


def repair_store(home: Home) -> StoreRepair:
    """Put a store in a damaged one's place that holds what can be read of it and of the log.

    To be called under the writer's lock. The damaged file keeps its content under a name with the
    time; it is only read.

    Parameters
    ----------
    home : Home
        Where it lies.

    Raises
    ------
    StoreError
        If the new store cannot be written; then the damaged one is still in its place.
    """
    bare = home.signatures.with_name(home.signatures.name + ".bare")
    with replacing_damaged(home.signatures, STORE_LOGS, duckdb.Error) as (fresh, aside):
        make_store(fresh)
        try:
            kept, lost = _salvage(fresh, aside, bare) if aside else ({}, {})
            merged, unread = _replay(fresh, segment_paths(home.merged))
        finally:
            for left in (bare, lock_path(fresh)):
                left.unlink(missing_ok=True)
        with duckdb.connect(fresh) as connection:
            connection.execute(_DROP_UNFOUNDED_RUNS).fetchall()
            connection.execute("CHECKPOINT").fetchall()
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
    return StoreRepair(aside, kept, lost, merged, unread)


def _salvage(
    fresh: Path, damaged: Path, bare: Path
) -> tuple[dict[str, int], dict[str, int | None]]:
    kept: dict[str, int] = {}
    lost: dict[str, int | None] = {}
    with duckdb.connect(fresh) as connection:
        connection.execute("SET enable_progress_bar = false").fetchall()
        if not _attach(connection, damaged, bare):
            names = [table.name for table in _TABLES]
            return dict.fromkeys(names, 0), dict.fromkeys(names)
        present = stored_tables(connection, "damaged")
        for table in _TABLES:
            if table is NETWORK_CURVES and table.name not in present:
                continue
            if table is BATCH_SCORES:
                add_metrics(connection, _columns(connection, table.name))
            total = _count(connection, f"damaged.{table.name}")
            if total:
                # Rows that were replaced leave gaps.
                end = _count(connection, f"damaged.{table.name}", "max(rowid) + 1")
                least = min(_LEAST_ROWS, (end or total) // _SPANS)
                _copy(connection, table.name, 0, end or total, least)
            kept[table.name] = _count(connection, table.name) or 0
            lost[table.name] = None if total is None else total - kept[table.name]
        if lost["batches"] != 0 or lost["batch_scores"] != 0:
            connection.execute(_DROP_TORN_BATCHES).fetchall()
        if lost.get("network_curves", 0) != 0:
            connection.execute(_DROP_TORN_CURVES).fetchall()
        connection.execute(_DROP_LONE_CURVES).fetchall()
    return kept, lost


def _attach(connection: duckdb.DuckDBPyConnection, damaged: Path, bare: Path) -> bool:
    # Its log may be what is damaged: without it the file is as it was some moments before.
    for source in (damaged, bare):
        with suppress(duckdb.Error, OSError):
            if source is bare:
                bare.unlink(missing_ok=True)
                bare.hardlink_to(damaged)
            file = quoted_text(str(source))
            connection.execute(f"ATTACH {file} AS damaged (READ_ONLY)").fetchall()
            return True
    return False


def _columns(connection: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    rows = connection.execute(
        "SELECT column_name FROM duckdb_columns() WHERE database_name = 'damaged'"
        " AND table_name = ?",
        [table],
    ).fetchall()
    return [name for (name,) in rows]


def _count(connection: duckdb.DuckDBPyConnection, table: str, rows: str = "count(*)") -> int | None:
    try:
        ((count,),) = connection.execute(f"SELECT {rows} FROM {table}").fetchall()
    except duckdb.Error:
        return None
    return int(count)


def _copy(
    connection: duckdb.DuckDBPyConnection, table: str, first: int, stop: int, least: int
) -> None:
    """Copy rows, and where that fails each half of them, of one row and of ``least`` at least."""
    known = {name for (name, *_) in connection.execute(f"DESCRIBE {table}").fetchall()}
    names = ", ".join(quoted_name(n) for n in _columns(connection, table) if n in known)
    try:
        connection.execute(
            f"INSERT INTO {table} BY NAME SELECT {names} FROM damaged.{table}"
            f" WHERE rowid >= {first} AND rowid < {stop}"
        ).fetchall()
    except duckdb.Error:
        half = (stop - first) // 2
        if half < max(least, 1):
            return
        middle = first + max(half // _GROUP_ROWS * _GROUP_ROWS, min(half, _GROUP_ROWS))
        _copy(connection, table, first, middle, least)
        _copy(connection, table, middle, stop, least)


def _replay(store: Path, log: list[Path]) -> tuple[int, int]:
    """Merge the segments of the log, as if they waited; return how many, and how many are unread.

    Rows that are stored already stay: the rules of merging see to that, whatever comes twice.
    """
    readable = []
    for path in log:
        with suppress(StoreError, FileNotFoundError):
            read_segment(path)
            readable.append(path)
    rest = readable
    while part := next_part(rest):
        merge_segments(store, part)
        rest = rest[len(part) :]
    return len(readable), len(log) - len(readable)
