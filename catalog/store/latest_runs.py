"""Which of several runs that measured the same counts: one rule, for SQL and for data frames.

The rule is SQL over any relation of runs: the views ``latest_signatures`` and ``models`` apply it
to the stored runs, a selection of an analysis to the runs that it fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from survey.settings import MeasureSettings

# Whoever only names the columns loads no library.
if TYPE_CHECKING:
    import pyarrow as pa

#: Columns of ``runs`` in which repeats of a measurement are equal.
MEASURED = ("source", "architecture", "checkpoint", "dataset", "pooling")


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


def chosen_runs(runs: pa.Table, rule: str) -> pa.Table:
    """Return those of some runs that a rule chooses, in their order.

    Parameters
    ----------
    runs : pyarrow.Table
        Rows of ``runs`` with ``run_id``, ``status``, ``ridge``, ``finished_at`` and ``MEASURED``.
    rule : str
        What the functions above return for ``runs``.
    """
    import duckdb
    import pyarrow.compute as pc

    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("runs", runs)
        chosen = connection.sql(f"SELECT run_id FROM {rule}").to_arrow_table()  # noqa: S608
    return runs.filter(pc.is_in(runs["run_id"], chosen["run_id"].combine_chunks()))


def without_runs(runs: pa.Table, others: pa.Table) -> pa.Table:
    """Return the runs that are not among others."""
    import pyarrow.compute as pc

    return runs.filter(pc.invert(pc.is_in(runs["run_id"], others["run_id"].combine_chunks())))
