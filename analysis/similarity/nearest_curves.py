"""The nearest of many curves to one of them, without the distances between the others."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from analysis.choices import NORMALISATION
from analysis.similarity.signature_curve import normalised
from analysis.statistics.dtw import squared_sums


def nearest_curves(curves: Mapping[str, ArrayLike], name: str, number: int) -> list[str]:
    """Return the names of the curves nearest to one of them, the nearest first.

    Parameters
    ----------
    curves : mapping of str to array of float, shape (n,)
        The affinity of each run's sites in execution order, NaN where a site has none.
    name : str
        Which of them.
    number : int
        How many others; fewer where there are not so many.

    Returns
    -------
    list of str
        Equally near ones in the order of the mapping. Empty where the curve has no value. Distances
        are those of ``analysis.similarity.distances`` with its default normalisation.
    """
    prepared = {}
    for each, values in curves.items():
        affinity = np.asarray(values, float)
        known = np.isfinite(affinity)
        if known.any():
            depths = np.arange(len(affinity)) / max(len(affinity) - 1, 1)
            prepared[each] = normalised(affinity[known], NORMALISATION, depths=depths[known])
    if name not in prepared:
        return []
    others = [each for each in prepared if each != name]
    places = np.arange(1, len(others) + 1)
    pairs = np.column_stack([np.zeros_like(places), places])
    sums = squared_sums([prepared[name], *(prepared[each] for each in others)], pairs)
    return [others[place] for place in np.argsort(sums, kind="stable")[:number]]
