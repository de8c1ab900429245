"""Tables of results: rows as a data frame whose columns and their types are declared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from analysis.data.provenance import carried

#: A row by column; a column that it lacks is blank.
Row = dict[str, Any]


def result_table(
    rows: Iterable[Row], columns: Mapping[str, str], *frames: pd.DataFrame
) -> pd.DataFrame:
    """Return rows as a table with the provenance of the frames they were computed from.

    Parameters
    ----------
    rows : iterable of dict
        The rows.
    columns : mapping of str to str
        The type of each column, in order; what else a row holds is dropped.
    frames : pandas.DataFrame
        See ``analysis.data.provenance.carried``.
    """
    table = pd.DataFrame(list(rows), columns=list(columns)).astype(dict(columns))
    return carried(table, *frames)
