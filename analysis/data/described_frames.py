"""What is put into frames of runs: columns of the runs, and what describes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.array_types import Integers
from analysis.data.provenance import CONDITIONS, conditions, mixed_settings
from catalog.store.views import DESCRIBED

#: Columns that are the same in all sites of a run, in their order there.
OF_RUNS = ("run_id", *(column.name for column in DESCRIBED))


def describe(
    frame: pd.DataFrame,
    runs: pd.DataFrame,
    places: Integers,
    columns: Sequence[str],
    selection: str,
) -> None:
    """Add columns of runs to rows about them, and what describes the runs.

    Parameters
    ----------
    frame : pandas.DataFrame
        The rows; it is changed.
    runs : pandas.DataFrame
        One row a run, of ``runs``.
    places : array of int, shape (rows,)
        Which of the runs each row is about.
    columns : sequence of str
        Which columns of the runs; those of the view ``signatures`` come first.
    selection : str
        Which runs these are, for captions.
    """
    first = [each for each in columns if each in OF_RUNS]
    for name in columns:
        place = first.index(name) if name in first else len(frame.columns)
        frame.insert(place, name, runs[name].take(places).set_axis(frame.index))
    shown = runs[np.bincount(places, minlength=len(runs)) > 0]
    versions = shown["measuring_version"].dropna().unique()
    measured: list[Any] = shown[list(CONDITIONS)].drop_duplicates().to_dict("records")
    frame.attrs = {
        "selection": selection,
        "measuring_versions": sorted(map(int, versions)),
        "conditions": conditions(measured),
        "mixed": mixed_settings(shown),
    }
