"""Which of several runs that measured the same counts: one rule, for SQL and for data frames.

The rule is SQL over any relation of runs: the views ``latest_signatures`` and ``models`` apply it
to the stored runs, a selection of an analysis to the runs that it fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from survey.settings import MeasureSettings

#: Columns of ``runs`` in which repeats of a measurement are equal.
MEASURED = ("source", "architecture", "checkpoint", "dataset", "pooling")

#: The other columns of ``runs`` that the rule reads.
_READ = ("run_id", "status", "ridge", "finished_at")


def of_one_ridge(runs: str) -> str:
    """Return the runs of one ridge as a relation, since scores of two do not compare.

    It is the one that most models were finished with; of as many models with each, the default. A
    run that never started has no ridge, and stays.

    Parameters
    ----------
    runs : str
        A relation of runs, as SQL takes it in a ``FROM``; named twice.
    """
    return f"""(
SELECT * FROM {runs} WHERE coalesce(ridge = (
  SELECT ridge FROM {runs} WHERE status = 'done' AND ridge IS NOT NULL GROUP BY ridge
  ORDER BY count(DISTINCT ({", ".join(MEASURED)})) DESC, ridge = '{MeasureSettings().ridge}' DESC
  LIMIT 1), true))"""  # noqa: S608 - declared names


def newest_each(runs: str) -> str:
    """Return the newest finished run of each measurement, else its newest, as a relation.

    Parameters
    ----------
    runs : str
        A relation of runs, as SQL takes it in a ``FROM``.
    """
    return f"""(
SELECT * FROM {runs} QUALIFY row_number() OVER (
  PARTITION BY {", ".join(MEASURED)}
  ORDER BY status = 'done' DESC, finished_at DESC NULLS LAST, run_id DESC) = 1)"""  # noqa: S608


def latest_of(runs: str) -> str:
    """Return the runs that compare, one of each measurement, as a relation."""
    return newest_each(of_one_ridge(runs))


def chosen_ids(runs: Iterable[Mapping[str, Any]], rule: str) -> set[str]:
    """Return the ids of those of some runs that a rule chooses.

    Parameters
    ----------
    runs : iterable of mapping
        Rows of ``runs`` with ``run_id``, ``status``, ``ridge``, ``finished_at`` and ``MEASURED``.
    rule : str
        What the functions above return for ``runs``.
    """
    # Imported here: whoever only names the columns above loads no library.
    import duckdb
    import pyarrow as pa

    from catalog.arrow_arrays import table_of
    from catalog.store.arrow_rows import RUN_SCHEMA

    names = (*_READ, *MEASURED)
    rows = [{name: run[name] for name in names} for run in runs]
    schema = pa.schema([RUN_SCHEMA.field(name) for name in names])
    with duckdb.connect() as connection:
        connection.register("runs", table_of(rows, schema))
        chosen = connection.execute(f"SELECT run_id FROM {rule}").fetchall()  # noqa: S608
    return {run_id for (run_id,) in chosen}
