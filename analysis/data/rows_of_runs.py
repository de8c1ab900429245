"""Rows of the runs that other rows are about."""

from __future__ import annotations

import pandas as pd


def of_runs(rows: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """Return the rows whose run has a row among others.

    Parameters
    ----------
    rows, others : pandas.DataFrame
        Both with ``run_id``.
    """
    # Each run once: pandas makes a Python string of every value that is looked for.
    kept: pd.DataFrame = rows[rows["run_id"].isin(others["run_id"].unique())]
    return kept
