"""Sites in their order, two runs of one architecture site by site, and one run of repeats."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.array_types import Integers
from analysis.data.rows_of_runs import of_runs
from catalog.store.latest_runs import MEASURED


def paired(one: pd.DataFrame, other: pd.DataFrame) -> NDArray[np.float64]:
    """Return the affinities of two runs at the sites where both have a score.

    Parameters
    ----------
    one, other : pandas.DataFrame
        The rows of one run each: ``site`` and ``affinity``.

    Returns
    -------
    array of float, shape (2, n)
        In order of sites.
    """
    columns = [run.set_index("site")["affinity"].astype("float64") for run in (one, other)]
    both = pd.concat(columns, axis="columns", join="inner").sort_index().dropna()
    values: NDArray[np.float64] = both.to_numpy(float).T
    return values


def last_run_each(signatures: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the last run of each group of repeats, which is the newest.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``: ``run_id`` and the columns of ``MEASURED``.
    """
    runs = signatures.drop_duplicates("run_id").drop_duplicates(list(MEASURED), keep="last")
    return of_runs(signatures, runs)


def execution_order(signatures: pd.DataFrame) -> Integers:
    """Return the places of the rows run by run, as the runs come, and each by its sites.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``: ``run_id``; without ``site`` the rows of a run stay as they
        come.
    """
    run = pd.factorize(signatures["run_id"])[0]
    order: Integers = np.lexsort((signatures["site"], run) if "site" in signatures else (run,))
    return order
