"""Staging: which unmerged rows count, and how they join those already stored.

Merging and reading share these rules, so a query gives the same before a merge as after it:

- a batch counts once: the highest attempt wins, at equal attempt the first written stays;
- a run's row: the highest attempt wins, then done or failed over running, then the latest;
- a measure of a whole network: the latest wins, with its curve.

Owns the rules as SQL over an open connection; opens and commits nothing.
"""

# ruff: noqa: S608 - every name in these statements is declared in catalog.store.schema

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.store.connection import stored_tables
from catalog.store.schema import (
    BATCH_SCORES,
    BATCHES,
    NETWORK_CURVES,
    NETWORK_SCORES,
    RUNS,
    Relation,
    comments,
    quoted_name,
)
from catalog.store.segments import Segment
from catalog.store.temporary_views import extra_columns, show_views

#: Which row of a segment's batches it is, in the order of writing; a score has that of its batch.
PLACE = "place"

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
CREATE TEMP TABLE spooled_batches AS
SELECT {", ".join(BATCHES.names)}, {PLACE} FROM (
  SELECT *, row_number() OVER (
    PARTITION BY run_id, batch ORDER BY attempt DESC, {PLACE}) AS rank
  FROM incoming_batches
) AS new
WHERE rank = 1 AND NOT EXISTS (
  SELECT 1 FROM {{stored}}.batches AS old
  WHERE old.run_id = new.run_id AND old.batch = new.batch AND old.attempt >= new.attempt);
CREATE TEMP TABLE spooled_network_scores AS
SELECT * EXCLUDE ({PLACE}) FROM incoming_network_scores
QUALIFY row_number() OVER (PARTITION BY run_id, measure ORDER BY {PLACE} DESC) = 1;
CREATE TEMP TABLE spooled_network_curves AS
SELECT run_id, measure, unnest(curve, max_depth := 2) FROM temp.spooled_network_scores
"""

_COUNTED = """
SELECT (SELECT count(*) FROM temp.spooled_batches),
  (SELECT count(*) FROM {stored}.batches SEMI JOIN temp.spooled_batches USING (run_id, batch))
"""


@dataclass(frozen=True, slots=True)
class Staged:
    """What is known of the rows that were staged."""

    #: Whether some of these batches replace stored ones.
    replaces: bool
    #: Whether every batch that came counts, and so do all scores.
    every: bool
    #: The columns of the scores.
    score_columns: tuple[str, ...]


def stage(connection: duckdb.DuckDBPyConnection, stored: str, rows: Segment) -> Staged:
    """Put the unmerged rows that count into the temporary tables ``spooled_*``.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Open on the store.
    stored : str
        The qualified schema of the stored tables.
    rows : Segment
        What ``joined`` gave.

    Returns
    -------
    Staged
        What ``store_staged`` and ``show_staged`` want to know.
    """
    scores = score_rows(rows.batches)
    connection.register("incoming_runs", _placed(rows.runs))
    connection.register("incoming_batches", _placed(rows.batches.drop_columns("scores")))
    connection.register("incoming_scores", scores)
    connection.register("incoming_network_scores", _placed(rows.network))
    connection.execute(_STAGE.format(stored=stored)).fetchall()
    ((count, replaced),) = connection.execute(_COUNTED.format(stored=stored)).fetchall()
    return Staged(
        replaced > 0,
        count == rows.batches.num_rows,
        tuple(n for n in scores.column_names if n != PLACE),
    )


def store_staged(connection: duckdb.DuckDBPyConnection, staged: Staged) -> None:
    """Move the staged rows into the stored tables, inside the caller's transaction."""
    connection.execute(
        "DELETE FROM runs WHERE run_id IN (SELECT run_id FROM temp.spooled_runs)"
    ).fetchall()
    if staged.replaces:
        for table in (BATCH_SCORES, BATCHES):
            connection.execute(
                f"DELETE FROM {table.name} USING temp.spooled_batches AS new"
                f" WHERE {table.name}.run_id = new.run_id AND {table.name}.batch = new.batch"
            ).fetchall()
    for table in (NETWORK_SCORES, NETWORK_CURVES):
        connection.execute(
            f"DELETE FROM {table.name} USING temp.spooled_network_scores AS new"
            f" WHERE {table.name}.run_id = new.run_id AND {table.name}.measure = new.measure"
        ).fetchall()
    for table in (RUNS, BATCHES, BATCH_SCORES, NETWORK_SCORES, NETWORK_CURVES):
        connection.execute(f"INSERT INTO {table.name} BY NAME {_rows(table, staged)}").fetchall()


def show_staged(connection: duckdb.DuckDBPyConnection, stored: str, staged: Staged) -> None:
    """Put temporary views over stored and staged rows under the stored tables' and views' names."""
    replaced = "ANTI JOIN temp.spooled_network_scores USING (run_id, measure)"
    without = "ANTI JOIN temp.spooled_batches USING (run_id, batch)" * staged.replaces
    extra = extra_columns(connection, staged.score_columns)
    # An older store lacks them.
    curves = stored if NETWORK_CURVES.name in stored_tables(connection) else None
    scores = dataclasses.replace(BATCH_SCORES, columns=(*BATCH_SCORES.columns, *extra))
    parts = [
        f"CREATE TEMP TABLE spooled_batch_scores AS {_rows(BATCH_SCORES, staged)}",
        _union(RUNS, stored, "ANTI JOIN temp.spooled_runs USING (run_id)"),
        _union(BATCHES, stored, without),
        _union(scores, stored, without, staged.score_columns),
        _union(NETWORK_SCORES, stored, replaced),
        _union(NETWORK_CURVES, curves, replaced),
    ]
    connection.execute(";\n".join(parts)).fetchall()
    show_views(connection, extra)
    for name in ("runs", "batches", "scores", "network_scores"):
        connection.unregister(f"incoming_{name}")


def score_rows(batches: pa.Table) -> pa.Table:
    """Return the scores nested in batches, a row each in their order, with ``PLACE``."""
    places = pc.list_parent_indices(batches["scores"])
    scores = pc.list_flatten(batches["scores"])
    # `Table.from_struct_array` imports pandas where there are none.
    parts = [pa.RecordBatch.from_struct_array(chunk) for chunk in scores.chunks]
    rows = pa.Table.from_batches(parts, pa.schema(scores.type))
    for name in ("run_id", "batch"):
        rows = rows.append_column(name, batches[name].take(places))
    return rows.append_column(PLACE, places)


def merged_names(connection: duckdb.DuckDBPyConnection, segments: list[Path]) -> set[str]:
    """Return which of the segments are in the store already, by name."""
    rows = connection.execute(
        "SELECT name FROM segments WHERE name IN (SELECT unnest(?::VARCHAR[]))",
        [[path.name for path in segments]],
    ).fetchall()
    return {str(name) for (name,) in rows}


def _placed(rows: pa.Table) -> pa.Table:
    places = pa.py_buffer(np.arange(rows.num_rows))
    return rows.append_column(
        PLACE, pa.Array.from_buffers(pa.int64(), rows.num_rows, [None, places])
    )


def _rows(table: Relation, staged: Staged) -> str:
    if table is not BATCH_SCORES:
        return f"SELECT {', '.join(table.names)} FROM temp.spooled_{table.name}"
    # Scores are many: they stay where they came from.
    chosen = "" if staged.every else f"SEMI JOIN temp.spooled_batches USING ({PLACE})"
    return (
        f"SELECT {', '.join(map(quoted_name, staged.score_columns))} FROM incoming_scores {chosen}"
    )


def _union(table: Relation, stored: str | None, without: str, staged: tuple[str, ...] = ()) -> str:
    names = ", ".join(map(quoted_name, staged or table.names))
    before = f"SELECT * FROM {stored}.{table.name} {without} UNION ALL BY NAME" if stored else ""
    return (
        f"CREATE TEMP VIEW {table.name} AS {before} SELECT {names} FROM"
        f" temp.spooled_{table.name};\n"
        + ";\n".join(comments(table)).replace("COMMENT ON TABLE", "COMMENT ON VIEW")
    )
