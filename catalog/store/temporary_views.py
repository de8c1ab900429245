"""The views of one connection, under the names of the stored ones: what a reader shows instead.

They show what the store lacks: rows that are not merged yet, columns of metrics, views of a newer
version, and the labels and tags of runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from catalog.store.schema import BATCH_SCORES, column_comment, comments
from catalog.store.views import LABELLED, RUN_LABELS, views, with_labels
from catalog.tags import RunLabels
from survey.column_fields import Column

if TYPE_CHECKING:
    import duckdb

#: A table of the labels and tags of runs, from what ``label_values`` returns.
LABELS = """
TABLE run_labels AS
SELECT unnest($ids::VARCHAR[]) AS run_id, unnest($labels::VARCHAR[]) AS label,
  map(unnest($names::VARCHAR[][]), unnest($values::VARCHAR[][])) AS tags
"""


def show_views(
    connection: duckdb.DuckDBPyConnection, extra: tuple[Column, ...], kind: str = "TEMP"
) -> None:
    """Make the views over the tables that are shown.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Open on the store.
    extra : tuple of Column
        From ``extra_columns``.
    kind : {"TEMP", "OR REPLACE"}
        This connection's, under the names of the stored ones, or these.
    """
    for view in views(extra):
        made = f"CREATE {kind} VIEW {view.name} AS {view.sql}"
        connection.execute(";\n".join((made, *comments(view)))).fetchall()


def show_labels(
    connection: duckdb.DuckDBPyConnection, labels: Mapping[str, RunLabels], *, explained: bool
) -> None:
    """Put the labels and tags of runs into ``run_labels`` and into views that have them.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        A reader's.
    labels : mapping of str to RunLabels
        By run id.
    explained : bool
        Whether the store explains the other columns of these views: that takes time.
    """
    connection.execute(f"CREATE TEMP {LABELS}", label_values(labels)).fetchall()
    statements = list(comments(RUN_LABELS))
    for view in views(extra_columns(connection)):
        if view.name in LABELLED:
            shown = with_labels(view)
            statements.append(f"CREATE OR REPLACE TEMP VIEW {view.name} AS {shown.sql}")
            added = shown.columns[len(view.columns) :]
            new = (column_comment(view.name, column) for column in added)
            statements += new if explained else comments(shown)
    connection.execute(";\n".join(statements)).fetchall()


def label_values(labels: Mapping[str, RunLabels]) -> dict[str, object]:
    """Return the parameters of ``LABELS``."""
    return {
        "ids": list(labels),
        "labels": [each.label for each in labels.values()],
        "names": [list(each.tags) for each in labels.values()],
        "values": [[_as_text(value) for value in each.tags.values()] for each in labels.values()],
    }


def _as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def extra_columns(
    connection: duckdb.DuckDBPyConnection, wanted: Iterable[str] = ()
) -> tuple[Column, ...]:
    """Return the columns of metrics that are not ours: of the stored scores, and others wanted.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Open on the store.
    wanted : iterable of str
        Names of columns; declared ones are left out.
    """
    rows = connection.execute(
        "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = 'batch_scores'"
        " AND database_name = current_database() ORDER BY column_index"
    ).fetchall()
    sentences = {**dict.fromkeys([*dict(rows), *wanted]), **dict(rows)}
    return tuple(
        Column(name, "DOUBLE", sentence or "A metric of a package that is not installed.")
        for name, sentence in sentences.items()
        if name not in BATCH_SCORES.names
    )
