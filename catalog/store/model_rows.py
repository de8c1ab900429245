"""The list of models: what is computed from the scores of a run is computed once.

A finished run does not change. So its mean affinity, and what else the view ``models`` computes
from scores, is kept in memory, and a list in whatever order reads the scores of new runs alone.
"""

# ruff: noqa: S608 - every name in these statements is declared

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING

import duckdb

from catalog.home import Home
from catalog.paging import Listed, PageRequest, facet_statement
from catalog.store.latest_runs import latest_of
from catalog.store.page_queries import FEW_RUNS, only_runs, page_of, result, source
from catalog.store.reader import reading, refusing
from catalog.store.schema import RUNS, View
from catalog.store.views import VIEWS, with_labels
from survey.column_fields import Column

if TYPE_CHECKING:
    import pyarrow as pa

    from catalog.tags import RunLabels

#: The view that is shown.
(MODELS,) = (view for view in VIEWS if view.name == "models")

_COMPUTED = tuple(name for name in MODELS.names if name not in RUNS.names)

#: The view over what is kept.
_KEPT = View(
    MODELS.name,
    MODELS.sentence,
    MODELS.columns,
    f"SELECT {', '.join(n for n in MODELS.names if n in RUNS.names)},"
    f" {', '.join(n for n in _COMPUTED if n != 'flags')}, coalesce(flags, []) AS flags"
    f" FROM {latest_of('runs')} LEFT JOIN kept_summaries USING (run_id)",
)

_FINISHED = f"SELECT run_id, finished_at FROM {latest_of('runs')} WHERE status = 'done'"


@dataclass(slots=True)
class _Summaries:
    """What was computed from the scores of a home's runs."""

    table: pa.Table | None = None
    #: When each run ended: one that is measured again is computed again.
    ended: dict[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelRows(Listed):
    """The rows of the view ``models``, with labels and tags."""

    #: Returns the labels and tags of runs.
    labels: Callable[[Home], Mapping[str, RunLabels]]
    _homes: dict[Home, _Summaries] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the view, with labels and tags."""
        return with_labels(_KEPT).columns

    def page(self, home: Home, request: PageRequest) -> pa.Table:
        """Return a page; see ``Listed``."""
        with self._connected(home) as connection:
            return page_of(connection, with_labels(_KEPT), request, _BEFORE)

    def facet(self, home: Home, request: PageRequest, by: str) -> pa.Table:
        """Return the values of a column; see ``Listed``."""
        with self._connected(home) as connection:
            statement = facet_statement(*source(with_labels(_KEPT)), request, by)
            return result(connection, statement, _BEFORE)

    @contextmanager
    def _connected(self, home: Home) -> Iterator[duckdb.DuckDBPyConnection]:
        with (
            reading(home, labels=self.labels(home)) as connection,
            refusing(home.signatures),
        ):
            with self._lock:
                kept = self._homes.setdefault(home, _Summaries())
                _bring_up_to_date(connection, kept)
                connection.register("kept_summaries", kept.table)
            yield connection


_BEFORE = f"WITH models AS ({with_labels(_KEPT).sql}) "


def _bring_up_to_date(connection: duckdb.DuckDBPyConnection, kept: _Summaries) -> None:
    """Compute what runs lack that ended since."""
    import pyarrow as pa
    import pyarrow.compute as pc

    finished = connection.sql(_FINISHED).to_arrow_table().to_pylist()
    new = {row["run_id"]: row["finished_at"] for row in finished}
    new = {run: ended for run, ended in new.items() if kept.ended.get(run) != ended}
    if kept.table is not None and not new:
        return
    # Of most runs at once it is quicker to read all.
    before = only_runs(connection, MODELS, list(new)) if len(new) <= FEW_RUNS else ""
    chosen = f"{before}SELECT run_id, {', '.join(_COMPUTED)} FROM models"
    computed = connection.sql(chosen).to_arrow_table()
    if kept.table is not None:
        again = pc.is_in(kept.table["run_id"], computed["run_id"].combine_chunks())
        computed = pa.concat_tables([kept.table.filter(pc.invert(again)), computed])
    kept.table = computed
    kept.ended.update(new)
