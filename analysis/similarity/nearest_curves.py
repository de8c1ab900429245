"""The nearest of many curves to one of them, without the distances between the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from analysis.array_types import Floats, Integers
from analysis.choices import NORMALISATION
from analysis.similarity.signature_curve import normalised
from analysis.statistics.dtw import squared_sums

if TYPE_CHECKING:
    import pyarrow as pa


def nearest_curves(curves: pa.Table, name: str, number: int) -> list[str]:
    """Return the names of the curves nearest to one of them, the nearest first.

    Parameters
    ----------
    curves : pyarrow.Table
        ``run_id``, and as ``affinity`` a list of the affinities of the run's sites in execution
        order, NULL where a site has none.
    name : str
        Which of them.
    number : int
        How many others; fewer where there are not so many.

    Returns
    -------
    list of str
        Equally near ones in the order of the rows. Empty where the curve has no value. Distances
        are those of ``analysis.similarity.distances`` with its default normalisation.
    """
    names = np.array(curves["run_id"].to_pylist(), dtype=object)
    prepared = _prepared(curves)
    place = np.flatnonzero(names == name)
    if not place.size or prepared[place[0]] is None:
        return []
    others = np.array(
        [at for at, curve in enumerate(prepared) if curve is not None and at != place[0]], np.int64
    )
    pairs = np.column_stack([np.zeros_like(others), np.arange(1, len(others) + 1)])
    sums = squared_sums([prepared[at] for at in (place[0], *others)], pairs)
    return [str(names[at]) for at in others[np.argsort(sums, kind="stable")[:number]]]


def _prepared(curves: pa.Table) -> list[Floats | None]:
    """Return each curve normalised; None where it has no value."""
    lists = curves["affinity"].combine_chunks()
    values = lists.flatten().to_numpy(zero_copy_only=False).astype(float)
    sizes = lists.value_lengths().to_numpy()
    starts = np.cumsum(sizes) - sizes
    known = np.isfinite(values)
    result: list[Floats | None] = [None] * len(sizes)
    # Thousands of runs have few numbers of sites: of one number all are normalised alike.
    for size in np.unique(sizes[sizes > 0]):
        places = np.flatnonzero(sizes == size)
        sites = starts[places, None] + np.arange(size)
        whole = known[sites].all(1)
        taken = _normalised(np.arange(size), np.arange(size), size).astype(np.int64)
        for at, curve in zip(places[whole], values[sites[whole][:, taken]], strict=True):
            result[at] = curve
        for at, of_run in zip(places[~whole], sites[~whole], strict=True):
            if (which := np.flatnonzero(known[of_run])).size:
                result[at] = _normalised(values[of_run][which], which, size)
    return result


def _normalised(values: Floats | Integers, sites: Integers, size: int) -> Floats:
    """Return values of some of a run's sites after normalisation."""
    return normalised(values, NORMALISATION, depths=sites / max(size - 1, 1))
