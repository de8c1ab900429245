"""The signature store's one reader: every query of every process comes through here.

A reader opens the file read-only for the length of one query, waits while the writer merges, and
sees the segments that are not merged yet as if they were: they are copied into temporary tables,
and temporary views unite both under the tables' own names. The file is held from before the spool
is listed until the query ends, so no row is missed and none is seen twice. The connection is locked
down before any of this: no file, no network, no settings, so any SQL may be run on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from catalog.home import Home
from catalog.store.connection import (
    READER_MEMORY_BYTES,
    connect_reading,
    explained,
    is_damage,
    unusable,
)
from catalog.store.records import RunRecord, RunState, Span
from catalog.store.unmerged import read_early, show_unmerged
from catalog.store.upgrade import READABLE, check_version, lacks_metrics, newest_version
from survey.errors import QueryError, SettingsError, UnknownName

if TYPE_CHECKING:
    import pyarrow as pa

    from catalog.tags import RunLabels

Parameters = Mapping[str, object]

# PIVOT is several statements to DuckDB.
_READING = {
    *(duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN, duckdb.StatementType.PRAGMA),
    *(duckdb.StatementType.CALL, duckdb.StatementType.MULTI),
}

_RUN_STATES = """
WITH islands AS (
  -- Batches that follow each other keep their distance from their rank.
  SELECT *, batch - row_number() OVER (PARTITION BY run_id ORDER BY batch) AS island FROM batches
), spans AS (
  SELECT run_id, {
    'first': min(batch), 'stop': max(batch) + 1, 'position': arg_max(end_position, batch)
  } AS span
  FROM islands GROUP BY run_id, island
), done AS (
  SELECT run_id, list(span ORDER BY span.first) AS done FROM spans GROUP BY run_id
), reached AS (
  SELECT run_id, max(attempt) AS attempt, count(*) AS batches_done, sum(images) AS images,
    sum(labelled) AS labelled, sum(top1_hits) AS top1_hits, sum(top5_hits) AS top5_hits,
    sum(skipped_images) AS skipped_images,
    flatten(list(skipped_names ORDER BY batch)) AS skipped_names, sum(seconds) AS seconds
  FROM batches GROUP BY run_id
)
SELECT run_id, coalesce(status, 'running') AS status, runs.sites AS sites,
  greatest(runs.attempt, reached.attempt) AS attempt,
  coalesce(batches_done, 0)::BIGINT AS batches_done,
  coalesce(done, []) AS done,
  coalesce(reached.images, 0)::BIGINT AS images,
  coalesce(labelled, 0)::BIGINT AS labelled,
  coalesce(top1_hits, 0)::BIGINT AS top1_hits,
  coalesce(top5_hits, 0)::BIGINT AS top5_hits,
  coalesce(reached.skipped_images, 0)::BIGINT AS skipped_images,
  coalesce(reached.skipped_names, []) AS skipped_names,
  coalesce(reached.seconds, 0)::DOUBLE AS seconds,
  measured_top1, expected_top1, suspicion, measures
FROM runs FULL JOIN (reached JOIN done USING (run_id)) USING (run_id)
LEFT JOIN (
  SELECT run_id, map_from_entries(list({'k': measure, 'v': version})) AS measures
  FROM network_scores GROUP BY run_id
) USING (run_id)
"""


@contextmanager
def reading(
    home: Home,
    metrics: Collection[str] = (),
    memory_bytes: int = READER_MEMORY_BYTES,
    labels: Mapping[str, RunLabels] | None = None,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a connection on everything measured so far, locked down.

    Fetch results with ``connection.sql(...).to_arrow_table()``. Hold it no longer than one query:
    the writer cannot merge meanwhile.

    Parameters
    ----------
    home : Home
        Where the store lies.
    metrics : collection of str
        Metrics that have a column, of NULL, also where the store has none of them yet.
    memory_bytes : int
        What a query may use of memory.
    labels : mapping of str to RunLabels, optional
        Labels and tags by run id: the views of ``catalog.store.views.LABELLED`` then have them.

    Raises
    ------
    StoreError
        If the store is missing, stays busy, or is no store of ours.
    """
    early = read_early(home)
    with connect_reading(home.signatures, memory_bytes) as connection:
        version = check_version(connection, home.signatures, oldest=READABLE)
        with explained(home.signatures):
            older = version < newest_version() or lacks_metrics(connection)
            show_unmerged(connection, home, early, metrics, older=older)
            if labels is not None:
                from catalog.store.temporary_views import show_labels

                show_labels(connection, labels, explained=not older)
        yield connection


def query(
    home: Home,
    sql: str,
    parameters: Parameters | None = None,
    labels: Mapping[str, RunLabels] | None = None,
) -> pa.Table:
    """Run one SQL statement on everything measured so far.

    Parameters
    ----------
    home : Home
        Where the store lies.
    sql : str
        One statement; it may be anyone's.
    parameters : mapping of str to object, optional
        Values of the statement's ``$name`` parameters.
    labels : mapping, optional
        The labels and tags of runs, which views then have.

    Returns
    -------
    pyarrow.Table
        Its rows.

    Raises
    ------
    SettingsError
        If the statement is wrong, more than one, or not allowed.
    StoreError
        If the store cannot be read.
    """
    given = dict(parameters) if parameters else None

    def answer(metrics: Collection[str] = ()) -> pa.Table:
        with reading(home, metrics, labels=labels) as connection, refusing(home.signatures):
            return result_of(connection, sql, given).to_arrow_table()

    try:
        return answer()
    except SettingsError as error:
        if not isinstance(error.__cause__, duckdb.BinderException):
            raise
        # The unknown name may be the column of an installed metric that was never stored. Packages
        # are loaded only now: their columns are not known before.
        from catalog.store.schema import installed_columns

        metrics = [column.name for column in installed_columns()]
        if not any(name in error.message.lower() for name in metrics):
            raise
    return answer(metrics)


def query_rows(
    home: Home, sql: str, parameters: Mapping[str, object] | None = None
) -> list[dict[str, Any]]:
    """Return the rows of one of this program's statements without importing pyarrow."""
    with reading(home) as connection, refusing(home.signatures):
        relation = connection.sql(sql, params=parameters)
        return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def run_states(home: Home) -> dict[str, RunState]:
    """Return how far each run has come, by run id: what a resumed scan goes on from."""
    states = {}
    for row in query(home, _RUN_STATES).to_pylist():
        run_id = row.pop("run_id")
        row["done"] = tuple(Span(**span) for span in row["done"])
        row |= {
            "skipped_names": tuple(row["skipped_names"]),
            "measures": dict(row["measures"] or ()),
        }
        states[run_id] = RunState(**row)
    return states


def run_row(home: Home, prefix: str) -> RunRecord:
    """Return the run whose id is, or alone begins with, the prefix.

    Raises
    ------
    UnknownName
        If no run's id begins with it.
    SettingsError
        If several do.
    """
    matches = query(
        home,
        "SELECT * FROM runs WHERE starts_with(run_id, $prefix) ORDER BY run_id <> $prefix, run_id",
        {"prefix": prefix},
    ).to_pylist()
    if not matches:
        known = query(home, "SELECT run_id FROM runs ORDER BY started_at DESC NULLS LAST")
        raise UnknownName("run", prefix, known["run_id"].to_pylist())
    if len(matches) > 1 and matches[0]["run_id"] != prefix:
        raise several_runs(prefix, [row["run_id"] for row in matches])
    return _record(matches[0])


def several_runs(prefix: str, run_ids: Sequence[str]) -> SettingsError:
    """Return the error for a prefix that begins the ids of several runs."""
    return SettingsError(
        f"{prefix!r} begins the ids of {len(run_ids)} runs: {', '.join(run_ids[:6])}",
        hint="give more of the id",
    )


def run_rows(home: Home, run_ids: Collection[str]) -> dict[str, RunRecord]:
    """Return the runs of some ids, by their ids."""
    if not run_ids:
        return {}
    sql = "SELECT * FROM runs WHERE run_id IN (SELECT unnest($ids::VARCHAR[])) ORDER BY run_id"
    rows = query(home, sql, {"ids": list(run_ids)}).to_pylist()
    return {row["run_id"]: _record(row) for row in rows}


def _record(row: Mapping[str, Any]) -> RunRecord:
    names = {name: tuple(row[name] or ()) for name in ("skipped_names", "dropped_keys")}
    return RunRecord(**{**row, **names})


def result_of(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, object] | None = None
) -> duckdb.DuckDBPyRelation:
    """Return the result of one statement, computed as it is fetched.

    Raises
    ------
    SettingsError
        If there is not one statement, or it does not read.
    """
    statements = connection.extract_statements(sql)
    count = len(statements)
    if count != 1:
        raise SettingsError(
            f"the SQL holds {count} statements, one is allowed",
            hint="run them one at a time" if count else "write one, such as SELECT * FROM runs",
        )
    if (kind := statements[0].type) not in _READING:
        raise SettingsError(
            f"a statement of the kind {kind.name} does not read",
            hint="write one that begins with SELECT",
        )
    result: duckdb.DuckDBPyRelation | None = connection.sql(sql, params=parameters)
    if result is None:
        raise SettingsError("the statement has no result", hint="write one that begins with SELECT")
    return result


@contextmanager
def refusing(path: Path) -> Iterator[None]:
    """Explain an error in a statement; DuckDB's own suggestion becomes the hint.

    One about the store's file is a ``StoreError``: damage shows where it is read.
    """
    try:
        yield
    except duckdb.Error as error:
        if is_damage(error):
            raise unusable(path, error) from error
        lines = [line for line in str(error).splitlines() if line.strip()]
        hints = [line for line in lines if line.startswith(("Did you mean", "Candidate bindings"))]
        message = "\n".join(line for line in lines if line not in hints)
        hint = hints[0] if hints else None
        if isinstance(error, duckdb.PermissionException):
            hint = "a query reads what was measured and files given by --with; --output writes"
        raise QueryError(message, hint=hint) from error


def is_lack_of_memory(error: BaseException) -> bool:
    """Return whether a query needed more memory than it was given."""
    return isinstance(error.__cause__, duckdb.OutOfMemoryException)


def is_unknown_name(error: BaseException) -> bool:
    """Return whether a query names what there is not."""
    return isinstance(error.__cause__, duckdb.BinderException)
