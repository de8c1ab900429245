"""A copy of what pages and lists ask for: runs, and what is computed from scores of finished ones.

A finished run does not change, so its signature is computed once. The copy is a DuckDB file in the
home's cache, kept open: a query of it starts no database, reads no scores, and holds up no writer.
It may be deleted at any time. Each process on one home has a copy of its own, in memory where all
files are held by others or cannot be written.
"""

# ruff: noqa: S608 - every name in these statements is declared

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING

import duckdb

from catalog.home import Home
from catalog.store.connection import explained, open_copy, store_stamp
from catalog.store.latest_runs import MEASURED, latest_of
from catalog.store.reader import reading, refusing
from catalog.store.schema import RUNS, quoted_name, quoted_text
from catalog.store.temporary_views import LABELS, extra_columns, label_values
from catalog.store.views import (
    GAPS,
    LABELLED,
    VIEWS,
    scored,
    scores_that_count,
    views,
    with_labels,
)

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from catalog.tags import RunLabels

#: Seconds between two looks at the store, and how many times as long as the last copying took.
LOOK_SECONDS, PAUSE = 1.0, 10.0

#: Runs that are copied at once: the writer may merge between them.
_RUNS_AT_ONCE = 2000

#: Files of copies; a service has one for lists and pages of runs, and one for answers.
_FILES = 4

_LATEST, MODELS = (view for view in VIEWS if view.name in LABELLED)

_COMPUTED = [name for name in MODELS.names if name not in RUNS.names]

#: Tables that are made anew of all runs: those that compare, and what names tell them apart by.
_OF_ALL_RUNS = {
    "latest": f"SELECT run_id FROM {latest_of('runs')}",
    "names": f"""
SELECT run_id, {", ".join(MEASURED)},
  row_number() OVER (PARTITION BY dataset ORDER BY run_id) = 1 AS is_first_of_dataset
FROM runs SEMI JOIN latest USING (run_id)""",
}

#: The views of the copy, under their names in the store, over its tables.
_VIEWS = (
    replace(
        _LATEST,
        sql=f"SELECT {scores_that_count()}, runs.measured_top1, runs.parameters"
        " FROM signatures JOIN latest USING (run_id) JOIN runs USING (run_id)",
    ),
    replace(
        MODELS,
        sql=f"SELECT {', '.join(n for n in MODELS.names if n in RUNS.names)},"
        f" {', '.join(n for n in _COMPUTED if n != 'flags')}, coalesce(flags, []) AS flags"
        " FROM runs JOIN latest USING (run_id) LEFT JOIN summaries USING (run_id)",
    ),
)

_OF_IDS = "run_id IN (SELECT unnest($ids::VARCHAR[]))"

#: Tables of rows that are computed from scores, and the statements over the store that do so.
_COMPUTED_ROWS = {
    "signatures": "SELECT * FROM signatures",
    "gaps": GAPS,
}

#: What the view of models has of scores, of the copied signatures.
_SUMMARIES = scored(f"(SELECT {scores_that_count()} FROM signatures WHERE {_OF_IDS})")


#: Of files made by another version nothing is known.
_VERSION = hashlib.sha256(
    repr((duckdb.__version__, RUNS, VIEWS, _VIEWS, _COMPUTED_ROWS, _SUMMARIES)).encode()
).hexdigest()[:16]


class Projection:
    """The copy of a home.

    Parameters
    ----------
    home : Home
        The home.
    labels : callable
        Returns the labels and tags of its runs.
    """

    def __init__(self, home: Home, labels: Callable[[Home], Mapping[str, RunLabels]]) -> None:
        self._home, self._labels_of = home, labels
        self._connection = open_copy(_files(home))
        self._copying = Lock()
        self._stamp: object = None
        self._next_look = 0.0
        self._labels: Mapping[str, RunLabels] | None = None

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a connection on the copy, as new as ``LOOK_SECONDS`` and ``PAUSE`` allow.

        Raises
        ------
        StoreError
            If the store cannot be read.
        """
        # Only the first copying is waited for.
        if self._copying.acquire(blocking=self._stamp is None):
            try:
                if time.monotonic() >= self._next_look:
                    self._look()
            finally:
                self._copying.release()
        with self.unchanged() as cursor:
            yield cursor

    def update(self) -> None:
        """Copy what has changed up to now.

        Raises
        ------
        StoreError
            If the store cannot be read.
        """
        with self._copying:
            self._look()

    @contextmanager
    def unchanged(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a connection on the copy as it is."""
        with self._connection.cursor() as cursor, refusing(self._home.signatures):
            yield cursor

    def lend(self) -> None:
        """Put what is copied into the file of the next process of the home, if it has none.

        That takes a tenth of the time in which the other would copy it from the store.

        Raises
        ------
        StoreError
            If it cannot be written.
        """
        following_of = {str(file): following for file, following in pairwise(_files(self._home))}
        with explained(self._home.cache), self._connection.cursor() as mine:
            held = mine.sql("SELECT path FROM duckdb_databases()").fetchall()
            following = next((following_of[path] for (path,) in held if path in following_of), None)
            if following is None or following.exists():
                return
            partial = following.with_suffix(".new")
            partial.unlink(missing_ok=True)
            mine.execute(f"ATTACH {quoted_text(str(partial))} AS lent; BEGIN").fetchall()
            for name in ("runs", *_COMPUTED_ROWS, "summaries"):
                mine.execute(f"CREATE TABLE lent.{name} AS FROM {name}").fetchall()
            mine.execute("COMMIT; DETACH lent").fetchall()
        partial.replace(following)

    def query(self, sql: str, **values: object) -> pa.Table:
        """Return the rows of one of this program's statements, with its parameters' values."""
        with self.reading() as connection:
            return connection.sql(sql, params=values).to_arrow_table()

    def _look(self) -> None:
        began = time.monotonic()
        try:
            self._copy_changes()
        except duckdb.Error:
            self._copy_into_memory()
        now = time.monotonic()
        self._next_look = now + max(LOOK_SECONDS, PAUSE * (now - began))

    def _copy_into_memory(self) -> None:
        """Copy all into memory: the file cannot be written, such as on a full disk."""
        fresh = copy(self)
        fresh._connection, fresh._stamp, fresh._labels = open_copy(()), None, None
        with explained(self._home.signatures):
            fresh._copy_changes()
        # Only now: meanwhile others read the last copy.
        self._connection = fresh._connection
        self._stamp, self._labels = fresh._stamp, fresh._labels

    def _copy_changes(self) -> None:
        # Taken before the rows: what changes meanwhile is seen at the next look.
        stamp = store_stamp(self._home)
        if stamp != self._stamp:
            self._copy()
            self._stamp = stamp
        labels = self._labels_of(self._home)
        if labels != self._labels:
            self._connection.execute(f"CREATE OR REPLACE {LABELS}", label_values(labels)).fetchall()
            self._labels = labels

    def _copy(self) -> None:
        """Copy runs that changed, the newest first, with what is computed from their scores."""
        with reading(self._home) as store:
            if self._stamp is None:
                self._prepare(store)
            changed, gone = self._changes(store)
            # To open a store takes long where segments wait: few runs are read at the same time.
            at_once = changed[:_RUNS_AT_ONCE]
            tables = _rows_of(store, at_once) if at_once else {}
        self._replace([*at_once, *gone], tables)
        for first in range(_RUNS_AT_ONCE, len(changed), _RUNS_AT_ONCE):
            at_once = changed[first : first + _RUNS_AT_ONCE]
            with reading(self._home) as store:
                tables = _rows_of(store, at_once)
            self._replace(at_once, tables)

    def _changes(self, store: duckdb.DuckDBPyConnection) -> tuple[list[str], list[str]]:
        """Return which runs changed, and which are gone; copy the measures of whole networks."""
        # An accuracy may be expected of a run when it has long finished.
        facts = "run_id, attempt, status, finished_at, expected_top1, expected_source, suspicion"
        with self._connection.cursor() as mine:
            mine.register("stored", store.sql(f"SELECT {facts} FROM runs").to_arrow_table())
            # Few, and added to runs that stay as they are otherwise.
            mine.register("measures", store.sql("FROM network_scores").to_arrow_table())
            mine.execute("CREATE OR REPLACE TABLE network_scores AS FROM measures").fetchall()
            newer = f"(FROM stored EXCEPT SELECT {facts} FROM runs) ORDER BY finished_at DESC"
            lost = "runs ANTI JOIN stored USING (run_id)"
            changed, gone = (
                [row[0] for row in mine.execute(f"SELECT run_id FROM {each}").fetchall()]
                for each in (newer, lost)
            )
        return changed, gone

    def _prepare(self, store: duckdb.DuckDBPyConnection) -> None:
        """Make the tables and views that are not there."""
        self._replace([], _rows_of(store, []))
        made = [f"CREATE OR REPLACE VIEW {v.name} AS {with_labels(v).sql}" for v in _VIEWS]
        made.append("CREATE INDEX IF NOT EXISTS signatures_by_run ON signatures (run_id)")
        for statement in made:
            self._connection.execute(statement).fetchall()

    def _replace(self, ids: Sequence[str], tables: Mapping[str, pa.Table]) -> None:
        """Put rows in the place of those of some runs, all at once."""
        if not ids and not tables:
            return
        wanted = {"ids": list(ids)}
        with self._connection.cursor() as mine:
            mine.execute("BEGIN").fetchall()
            for name, table in tables.items():
                mine.register("copied", table)
                _make_table(mine, name, table.column_names)
            mine.execute(f"CREATE TABLE IF NOT EXISTS summaries AS {_SUMMARIES}", {"ids": []})
            for name in ("runs", *_COMPUTED_ROWS, "summaries"):
                mine.execute(f"DELETE FROM {name} WHERE {_OF_IDS}", wanted).fetchall()
            for name, table in tables.items():
                mine.register("copied", table)
                mine.execute(f"INSERT INTO {name} BY NAME FROM copied").fetchall()
            mine.execute(f"INSERT INTO summaries BY NAME {_SUMMARIES}", wanted).fetchall()
            for name, sql in _OF_ALL_RUNS.items():
                mine.execute(f"CREATE OR REPLACE TABLE {name} AS {sql}").fetchall()
            mine.execute("COMMIT").fetchall()


def _make_table(mine: duckdb.DuckDBPyConnection, name: str, columns: Sequence[str]) -> None:
    """Make a table for ``copied`` rows, or add the columns of metrics that are new."""
    made = f"CREATE TABLE IF NOT EXISTS {name} AS FROM copied WITH NO DATA"
    mine.execute(made).fetchall()
    for metric in set(columns).difference(mine.sql(f"FROM {name}").columns):
        added = f"ALTER TABLE {name} ADD COLUMN {quoted_name(metric)} DOUBLE"
        mine.execute(added).fetchall()


def _rows_of(store: duckdb.DuckDBPyConnection, ids: Sequence[str]) -> dict[str, pa.Table]:
    """Return what is copied of some runs, by table."""
    before = _of_runs(store, ids)
    parts = {"runs": "FROM runs SEMI JOIN wanted_runs USING (run_id)"}
    parts |= {name: before + sql for name, sql in _COMPUTED_ROWS.items()}
    return {name: store.sql(sql).to_arrow_table() for name, sql in parts.items()}


def _of_runs(store: duckdb.DuckDBPyConnection, ids: Sequence[str]) -> str:
    """Return a ``WITH`` under which views of scores read those of some runs alone."""
    made = "CREATE OR REPLACE TEMP TABLE wanted_runs AS SELECT unnest($ids::VARCHAR[]) AS run_id"
    store.execute(made, {"ids": list(ids)}).fetchall()
    of_scores = "SELECT * FROM batch_scores SEMI JOIN wanted_runs USING (run_id)"
    made_of_them = (view for view in views(extra_columns(store)) if view.name not in LABELLED)
    parts = (f"{view.name} AS ({view.sql})" for view in made_of_them)
    return f"WITH batch_scores AS ({of_scores}), {', '.join(parts)} "


def _files(home: Home) -> list[Path]:
    """Return the files of copies, of which each process opens the first that no other holds."""
    names = (f"{_VERSION}-{number}.duckdb" for number in range(_FILES))
    return [home.cache / "projection" / name for name in names]
