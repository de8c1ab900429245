"""Dynamic time warping of curves, many pairs at a time.

The definition, and how pairs are spread over threads. The machine code of
``analysis.statistics.dtw_kernel`` is compiled, or read from numba's cache, on the first distance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from analysis.array_types import Floats, Integers
from survey.cores import local_cores
from survey.errors import SettingsError

#: Cells of the recursion below which one thread is faster than several.
CELLS_ALONE = 2_000_000

#: Chunks of pairs a thread, so that threads end at about the same time.
_CHUNKS = 16


def dtw(x: ArrayLike, y: ArrayLike, band: int | None = None) -> float:
    """Return the dynamic time warping distance of two curves.

    The least sqrt(sum over (i, j) in P of (x_i - y_j)^2) over warping paths P: from (0, 0) to
    (n - 1, m - 1) in steps (1, 0), (0, 1) and (1, 1). That is tslearn's definition.

    Parameters
    ----------
    x : array of float, shape (n,)
        A curve, finite.
    y : array of float, shape (m,)
        Another.
    band : int, optional
        Radius of a Sakoe-Chiba band in sites. For n <= m, cell (i, j) is entered only where
        i - band <= j <= i + (m - n) + band, which is tslearn's ``sakoe_chiba_radius``.

    Returns
    -------
    float
        The distance, in the unit of the curves.

    Raises
    ------
    SettingsError
        If a curve is empty or not finite, or the band is negative.

    References
    ----------
    .. [1] H. Sakoe, S. Chiba, "Dynamic programming algorithm optimization for spoken word
       recognition", IEEE Transactions on Acoustics, Speech, and Signal Processing 26 (1978),
       43-49, doi:10.1109/TASSP.1978.1163055.
    """
    pair = np.array([[0, 1]])
    return math.sqrt(squared_sums([np.asarray(x), np.asarray(y)], pair, band)[0])


def dtw_path(x: ArrayLike, y: ArrayLike) -> Integers:
    """Return a warping path of the least sum: what ``dtw`` is the root of.

    In plain Python: for one pair that takes less time than to compile machine code.

    Parameters
    ----------
    x, y : array of float, shape (n,) and (m,)
        The curves.

    Returns
    -------
    array of int, shape (steps, 2)
        Its cells (i, j), from (0, 0) to (n - 1, m - 1).
    """
    costs = np.subtract.outer(np.asarray(x, float), np.asarray(y, float)) ** 2
    n, m = costs.shape
    # A row and a column before the first hold infinity: no path comes from there.
    sums = [[math.inf] * (m + 1) for _ in range(n + 1)]
    sums[0][0] = 0.0
    for i, row in enumerate(costs.tolist()):
        for j, cost in enumerate(row):
            sums[i + 1][j + 1] = cost + min(sums[i][j], sums[i][j + 1], sums[i + 1][j])
    path = [(n - 1, m - 1)]
    while path[-1] != (0, 0):
        i, j = path[-1]
        steps = ((i - 1, j - 1), (i - 1, j), (i, j - 1))
        path.append(min(steps, key=lambda cell: sums[cell[0] + 1][cell[1] + 1]))
    return np.array(path[::-1])


def squared_sums(
    curves: Sequence[ArrayLike],
    pairs: ArrayLike,
    band: int | None = None,
    dtype: DTypeLike = np.float64,
) -> Floats:
    """Return the squared distances of pairs of curves; see ``dtw``.

    Parameters
    ----------
    curves : sequence of array of float
        Finite curves, of any lengths.
    pairs : array of int, shape (p, 2)
        Which of them to compare with which, counting from 0.
    band : int, optional
        Radius of a Sakoe-Chiba band in sites.
    dtype : dtype, default float64
        The precision of the sums: float32 takes two thirds of the time, to seven digits.

    Returns
    -------
    array of float, shape (p,)
        The least sum of squared differences along a warping path.

    Raises
    ------
    SettingsError
        If a curve is empty or not finite, or the band is negative.
    """
    if band is not None and band < 0:
        raise SettingsError(f"the band is {band}, must be at least 0 or none")
    wanted = np.asarray(pairs, np.int64).reshape(-1, 2)
    sums = np.empty(len(wanted))
    if len(wanted):
        prepared = [_prepared(curve).astype(dtype, copy=False) for curve in curves]
        _fill(prepared, wanted, -1 if band is None else int(band), sums)
    return sums


def aligned_mean(curves: Sequence[Floats], centre: Floats, band: int | None = None) -> Floats:
    """Return the mean of curves along their warping paths to a centre.

    This is one step of DTW barycentre averaging: the summed squared distances of the curves to the
    result are at most those to the centre.

    Parameters
    ----------
    curves : sequence of array of float
        Finite curves, at least one, none longer than the centre.
    centre : array of float, shape (m,)
        What they are warped to.
    band : int, optional
        Radius of a Sakoe-Chiba band in sites.

    Returns
    -------
    array of float, shape (m,)
        For each point of the centre the mean of all values that lie on it.
    """
    from analysis.statistics.dtw_kernel import add_aligned

    flat, starts, sizes = _joined(curves)
    sums, counts = np.zeros_like(centre), np.zeros_like(centre)
    add_aligned(flat, starts, sizes, centre, -1 if band is None else int(band), sums, counts)
    return sums / counts


def _joined(curves: Sequence[Floats]) -> tuple[Floats, Integers, Integers]:
    """Return curves one behind the other, where each starts, and its size."""
    sizes = np.array([curve.size for curve in curves], np.int64)
    return np.concatenate(curves), np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes


def _prepared(curve: ArrayLike) -> Floats:
    values = np.asarray(curve, np.float64)
    if values.ndim != 1 or not values.size:
        raise SettingsError(f"a curve has the shape {values.shape}, must be (n,) with n >= 1")
    if not np.isfinite(values).all():
        raise SettingsError(
            "a curve holds values that are not finite", hint="leave sites without a value out"
        )
    return values


def _fill(curves: Sequence[Floats], pairs: Integers, radius: int, sums: Floats) -> None:
    from analysis.statistics.dtw_kernel import fill_sums

    flat, starts, sizes = _joined(curves)
    # The shorter curve first.
    pairs = np.where((sizes[pairs[:, 0]] > sizes[pairs[:, 1]])[:, None], pairs[:, ::-1], pairs)
    lengths = sizes[pairs]

    def compute(places: Integers) -> None:
        results = np.empty(len(places), flat.dtype)
        first, second = np.ascontiguousarray(pairs[places].T)
        fill_sums(flat, starts, sizes, first, second, radius, results)
        sums[places] = results

    threads = 1 if lengths.prod(axis=1).sum() < CELLS_ALONE else local_cores()
    # Pairs of like lengths side by side, as they are warped together; in a band, of equal shift.
    shift = lengths[:, 1] - lengths[:, 0] if radius >= 0 else 0 * lengths[:, 1]
    order = np.lexsort((lengths[:, 1], lengths[:, 0], shift))
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(compute, np.array_split(order, threads * _CHUNKS)))
