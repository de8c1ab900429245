"""Pairing: two runs of one architecture, site by site."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def paired(one: pd.DataFrame, other: pd.DataFrame) -> NDArray[np.float64]:
    """Return the affinities of two runs at the sites that both have a score at.

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
