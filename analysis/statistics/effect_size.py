"""Cliff's delta of two groups of numbers: by how much one lies above the other.

It counts pairs, so that it holds for scores close to 0 or 1 too, where a difference of means over a
deviation says little. It describes the sites of one network, which depend on each other: a test
compares networks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def cliffs_delta(group: ArrayLike, others: ArrayLike) -> float:
    """Return (#(a > b) - #(a < b)) / (n m) over the pairs of two groups [1]_.

    Parameters
    ----------
    group, others : array of float, shapes (n,) and (m,)
        Neither of them empty.

    Returns
    -------
    float
        In [-1, 1]: 1 where every number lies above every number of the other group.

    References
    ----------
    .. [1] N. Cliff, "Dominance Statistics: Ordinal Analyses to Answer Ordinal Questions",
       Psychological Bulletin 114 (1993), doi:10.1037/0033-2909.114.3.494.
    """
    a, b = np.asarray(group, float), np.asarray(others, float)
    return float(np.sign(a[:, None] - b[None, :]).mean())
