"""SQL over what was measured, as a frame: what ``survey sql`` prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from catalog.open_home import open_home
from catalog.registry.labels import labels_of
from catalog.store.reader import query as rows_of

if TYPE_CHECKING:
    import pandas as pd


def query(home: str | Path, sql: str) -> pd.DataFrame:
    """Return the rows of one SQL statement that reads.

    Parameters
    ----------
    home : str or pathlib.Path
        The home.
    sql : str
        One statement over the tables and views of ``docs/schema.md``.

    Returns
    -------
    pandas.DataFrame
        Its rows.

    Raises
    ------
    SettingsError
        If there is no home, or the statement is wrong, more than one, or not allowed.
    StoreError
        If the store cannot be read.
    """
    opened = open_home(Path(home), create=False)
    frame: pd.DataFrame = rows_of(opened, sql, labels=labels_of(opened)).to_pandas()
    return frame
