"""History: the range of each model's signature by the year of its architecture (Fig. 3)."""

from __future__ import annotations

import pandas as pd

from analysis.data.provenance import carried
from analysis.data.validation import require_columns

COLUMNS = {
    "model": "str",
    "family": "str",
    "family_group": "str",
    "year": "Int64",
    "lowest": "float64",
    "median": "float64",
    "highest": "float64",
    "sites": "int64",
}

_NEEDED = ("run_id", "model", "family", "family_group", "year", "affinity")


def timeline(signatures: pd.DataFrame) -> pd.DataFrame:
    """Return the lowest, median and highest affinity of every model, oldest first.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``: ``run_id``, ``model``, ``family``, ``family_group``,
        ``year`` and ``affinity``.

    Returns
    -------
    pandas.DataFrame
        One row a model: ``model``, ``family``, ``family_group``, ``year`` (of the architecture;
        missing where nobody knows it, and then last), ``lowest``, ``median`` and ``highest``
        affinity over its sites (NaN without any), ``sites`` (that have an affinity). In the order
        of year, family, median, model.

    Raises
    ------
    SettingsError
        If a column is missing.
    """
    require_columns(signatures, _NEEDED)
    by_run = signatures.groupby("run_id", sort=False)
    rows = by_run.agg(
        model=("model", "first"),
        family=("family", "first"),
        family_group=("family_group", "first"),
        year=("year", "first"),
        lowest=("affinity", "min"),
        median=("affinity", "median"),
        highest=("affinity", "max"),
        sites=("affinity", "count"),
    )
    rows["year"] = pd.to_numeric(rows["year"])
    ordered = rows.sort_values(["year", "family", "median", "model"], na_position="last")
    return carried(ordered.reset_index(drop=True).astype(COLUMNS)[list(COLUMNS)], signatures)
