"""Staging: which unmerged rows count, and how they join those already stored.

Merging and reading share these rules, so a query gives the same before a merge as after it:

- a batch counts once: the highest attempt wins, at equal attempt the first written stays;
- a run's row: the highest attempt wins, then done or failed over running, then the latest.

Owns the rules as SQL over an open connection; opens and commits nothing.
"""

# ruff: noqa: S608 - every name in these statements is declared in catalog.schema

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from catalog.schema import BATCH_SCORES, BATCHES, RUNS, VIEWS, Table, comments
from catalog.segments import PLACE

_SCORES = tuple(name for name in BATCH_SCORES.names if name not in ("run_id", "batch"))

# `rank` orders the unmerged rows among themselves, `old` lets a stored row stand.
_STAGE = f"""
CREATE TEMP TABLE spooled_runs AS
SELECT {", ".join(RUNS.names)} FROM (
  SELECT *, row_number() OVER (
    PARTITION BY run_id ORDER BY attempt DESC, status <> 'running' DESC, {PLACE} DESC) AS rank
  FROM incoming_runs
) AS new
WHERE rank = 1 AND NOT EXISTS (
  SELECT 1 FROM {{stored}}.runs AS old WHERE old.run_id = new.run_id AND (
    old.attempt > new.attempt OR old.attempt = new.attempt
    AND old.status <> 'running' AND new.status = 'running'));
CREATE TEMP TABLE spooled_whole AS
SELECT {", ".join(BATCHES.names)}, scores FROM (
  SELECT *, row_number() OVER (
    PARTITION BY run_id, batch ORDER BY attempt DESC, {PLACE}) AS rank
  FROM incoming_batches
) AS new
WHERE rank = 1 AND NOT EXISTS (
  SELECT 1 FROM {{stored}}.batches AS old
  WHERE old.run_id = new.run_id AND old.batch = new.batch AND old.attempt >= new.attempt);
CREATE TEMP TABLE spooled_batches AS
SELECT {", ".join(BATCHES.names)} FROM spooled_whole;
CREATE TEMP TABLE spooled_batch_scores AS
SELECT run_id, batch, {", ".join(f"score.{name} AS {name}" for name in _SCORES)}
FROM (SELECT run_id, batch, unnest(scores) AS score FROM spooled_whole);
DROP TABLE spooled_whole
"""

_REPLACED = """
SELECT count(*) FROM {stored}.batches SEMI JOIN temp.spooled_batches USING (run_id, batch)
"""


def stage(
    connection: duckdb.DuckDBPyConnection, stored: str, runs: pa.Table, batches: pa.Table
) -> bool:
    """Put the unmerged rows that count into the temporary tables ``spooled_*``.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Open on the store.
    stored : str
        The qualified schema of the stored tables.
    runs, batches : pyarrow.Table
        What ``read_segments`` gave.

    Returns
    -------
    bool
        Whether some of these batches replace stored ones.
    """
    connection.register("incoming_runs", runs)
    connection.register("incoming_batches", batches)
    connection.execute(_STAGE.format(stored=stored)).fetchall()
    connection.unregister("incoming_runs")
    connection.unregister("incoming_batches")
    replaced = connection.execute(_REPLACED.format(stored=stored)).fetchall()
    return bool(replaced[0][0])


def store_staged(connection: duckdb.DuckDBPyConnection, *, replaces: bool) -> None:
    """Move the staged rows into the stored tables, inside the caller's transaction."""
    connection.execute(
        "DELETE FROM runs WHERE run_id IN (SELECT run_id FROM temp.spooled_runs)"
    ).fetchall()
    if replaces:
        for table in (BATCH_SCORES, BATCHES):
            connection.execute(
                f"DELETE FROM {table.name} USING temp.spooled_batches AS new"
                f" WHERE {table.name}.run_id = new.run_id AND {table.name}.batch = new.batch"
            ).fetchall()
    for table in (RUNS, BATCHES, BATCH_SCORES):
        connection.execute(
            f"INSERT INTO {table.name} BY NAME SELECT * FROM temp.spooled_{table.name}"
        ).fetchall()


def show_staged(connection: duckdb.DuckDBPyConnection, stored: str, *, replaces: bool) -> None:
    """Put temporary views over stored and staged rows under the stored tables' and views' names."""
    parts = [
        _union(RUNS, stored, "ANTI JOIN temp.spooled_runs USING (run_id)"),
        *(
            _union(table, stored, "ANTI JOIN temp.spooled_batches USING (run_id, batch)" * replaces)
            for table in (BATCHES, BATCH_SCORES)
        ),
        *(f"CREATE TEMP VIEW {view.name} AS {view.sql}" for view in VIEWS),
        *(statement for view in VIEWS for statement in comments(view)),
    ]
    connection.execute(";\n".join(parts)).fetchall()


def merged_names(connection: duckdb.DuckDBPyConnection, segments: list[Path]) -> set[str]:
    """Return which of the segments are in the store already, by name."""
    rows = connection.execute(
        "SELECT name FROM segments WHERE name IN (SELECT unnest(?::VARCHAR[]))",
        [[path.name for path in segments]],
    ).fetchall()
    return {str(name) for (name,) in rows}


def _union(table: Table, stored: str, without: str) -> str:
    return (
        f"CREATE TEMP VIEW {table.name} AS SELECT * FROM {stored}.{table.name} {without}"
        f" UNION ALL BY NAME SELECT * FROM temp.spooled_{table.name};\n"
        + ";\n".join(comments(table)).replace("COMMENT ON TABLE", "COMMENT ON VIEW")
    )
