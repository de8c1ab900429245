"""Dynamic time warping as machine code; use it through ``analysis.statistics.dtw``.

Importing this module imports numba and compiles. The cells of one anti-diagonal do not depend on
each other, nor on another pair of curves, so they are computed many at a time: with the second
curve reversed, the cells of an anti-diagonal of several pairs and all that they need lie side by
side in memory, and comparing by ``<`` instead of ``min`` lets the compiler use the processor's
minimum instruction. Every cell is
(x_i - y_j)^2 + min(...), in that order, without any reassociation: the sums are those of the plain
recursion, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from analysis.statistics import jit

#: Bytes of the values that pairs warped at a time have side by side: eight numbers of double
#: precision, whose rows of 100 cells fill a core's first cache.
LANE_BYTES = 64


@numba.njit(nogil=True)
def _cells(x: Any, y: Any, left: Any, up: Any, corner: Any, out: Any) -> None:
    """Compute the cells of an anti-diagonal; inlined by hand it would not be vectorised."""
    for k in range(x.size):
        best = up[k] if up[k] < left[k] else left[k]
        best = corner[k] if corner[k] < best else best
        difference = x[k] - y[k]
        out[k] = difference * difference + best


@numba.njit(nogil=True)
def _interleaved(flat: Any, starts: Any, sizes: Any, curves: Any, out: Any, turned: bool) -> Any:
    """Lay curves side by side, value k of curve l at k * lanes + l, filled up with zeros."""
    lanes, longest = curves.size, 0
    for curve in curves:
        longest = max(longest, sizes[curve])
    out[: longest * lanes] = 0.0
    for lane in range(lanes):
        start, size = starts[curves[lane]], sizes[curves[lane]]
        for k in range(size):
            place = longest - 1 - k if turned else k
            out[place * lanes + lane] = flat[start + k]
    return out[: longest * lanes]


@numba.njit(nogil=True)
def _keep_ended(row: Any, diagonal: int, short: Any, shift: int, out: Any) -> None:
    """Keep the last cell of the pairs that end at an anti-diagonal."""
    for lane in range(short.size):
        if 2 * short[lane] + shift - 2 == diagonal:
            out[lane] = row[short[lane] * short.size + lane]


@numba.njit(nogil=True)
def _squares(
    x: Any, y_reversed: Any, short: Any, shift: int, radius: int, rows: Any, out: Any
) -> None:
    """Fill in the least sums of squares of pairs that lie side by side in x and y.

    Cell (i, j) may be entered where i - radius <= j <= i + shift + radius. Anti-diagonal i + j
    keeps cell i at place i + 1 of its row, between two places that hold infinity. A pair that is
    shorter than others beside it ends earlier; what lies beyond its end feeds none of its cells.
    """
    lanes = short.size
    n, m = x.size // lanes, y_reversed.size // lanes
    before, last, now = rows[0], rows[1], rows[2]
    rows[:, : (n + 2) * lanes] = np.inf
    corner = x[:lanes] - y_reversed[(m - 1) * lanes :]
    last[lanes : 2 * lanes] = corner * corner
    _keep_ended(last, 0, short, shift, out)
    for diagonal in range(1, n + m - 1):
        low = max(0, diagonal - m + 1, (diagonal - shift - radius + 1) >> 1)
        stop = min(n - 1, diagonal, (diagonal + radius) >> 1) + 1
        if low < stop:
            turned = m - 1 - diagonal
            _cells(
                x[low * lanes : stop * lanes],
                y_reversed[(turned + low) * lanes : (turned + stop) * lanes],
                last[low * lanes : stop * lanes],
                last[(low + 1) * lanes : (stop + 1) * lanes],
                before[low * lanes : stop * lanes],
                now[(low + 1) * lanes : (stop + 1) * lanes],
            )
        # Beyond the last cell infinity still stands: the last one never moves back.
        now[low * lanes : (low + 1) * lanes] = np.inf
        before, last, now = last, now, before
        _keep_ended(last, diagonal, short, shift, out)


def _sums(
    flat: Any, starts: Any, sizes: Any, first: Any, second: Any, radius: Any, out: Any
) -> None:
    """Fill in the sums of squares of pairs of curves, which lie one behind the other in flat.

    Of each pair the first curve is no longer than the second. As many pairs as there are lanes are
    warped at a time where the lengths of their curves differ by as much.
    """
    longest, lanes = sizes.max(), LANE_BYTES // flat.itemsize
    rows = np.empty((3, (longest + 2) * lanes), flat.dtype)
    x, y = np.empty(longest * lanes, flat.dtype), np.empty(longest * lanes, flat.dtype)
    start = 0
    while start < first.size:
        shift = sizes[second[start]] - sizes[first[start]]
        stop = start + 1
        while (
            stop < min(start + lanes, first.size)
            and sizes[second[stop]] - sizes[first[stop]] == shift
        ):
            stop += 1
        rising = _interleaved(flat, starts, sizes, first[start:stop], x, False)
        falling = _interleaved(flat, starts, sizes, second[start:stop], y, True)
        # As wide as the longest curve is no band at all.
        width = longest if radius < 0 else min(radius, longest)
        short = sizes[first[start:stop]]
        _squares(rising, falling, short, shift, width, rows, out[start:stop])
        start = stop


def _aligned(
    flat: Any, starts: Any, sizes: Any, centre: Any, radius: Any, sums: Any, counts: Any
) -> None:
    """Add to each point of a centre the values of curves that their least paths lay on it.

    No curve is longer than the centre; of equal steps back the diagonal one is taken.
    """
    m = centre.size
    width = m if radius < 0 else min(radius, m)
    costs = np.empty((sizes.max() + 1, m + 1))
    for place in range(sizes.size):
        n = sizes[place]
        curve = flat[starts[place] : starts[place] + n]
        costs[: n + 1] = np.inf
        costs[0, 0] = 0.0
        for i in range(n):
            for j in range(max(0, i - width), min(m, i + m - n + width + 1)):
                best = min(costs[i, j], costs[i, j + 1], costs[i + 1, j])
                costs[i + 1, j + 1] = (curve[i] - centre[j]) ** 2 + best
        i, j = n - 1, m - 1
        while i >= 0:
            sums[j] += curve[i]
            counts[j] += 1
            corner, up, left = costs[i, j], costs[i, j + 1], costs[i + 1, j]
            i -= corner <= left or up <= left
            j -= corner <= up or left < up


_ONES, _NONE = np.ones(1), np.zeros(1, np.int64)

#: The sums as machine code.
fill_sums = jit.compiled(_sums, _ONES, _NONE, _NONE + 1, _NONE, _NONE, -1, np.empty(1))

#: The sums and counts of the values on each point of a centre, as machine code.
add_aligned = jit.compiled(_aligned, _ONES, _NONE, _NONE + 1, _ONES, -1, np.empty(1), np.empty(1))
