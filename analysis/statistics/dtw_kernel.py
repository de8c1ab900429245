"""Dynamic time warping as machine code; use it through ``analysis.statistics.dtw``.

Importing this module imports numba and compiles. The cells of one anti-diagonal do not depend on
each other, so they are computed many at a time: with the second curve reversed, the cells of an
anti-diagonal and all that they need lie side by side in memory, and comparing by ``<`` instead of
``min`` lets the compiler use the processor's minimum instruction. Every cell is
(x_i - y_j)^2 + min(...), in that order, without any reassociation: the sums are those of the plain
recursion, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from analysis.statistics import jit


@numba.njit(nogil=True)
def _cells(x: Any, y: Any, left: Any, up: Any, corner: Any, out: Any) -> None:
    """Compute the cells of an anti-diagonal; inlined by hand it would not be vectorised."""
    for k in range(x.size):
        best = up[k] if up[k] < left[k] else left[k]
        best = corner[k] if corner[k] < best else best
        difference = x[k] - y[k]
        out[k] = difference * difference + best


@numba.njit(nogil=True)
def _squares(x: Any, y_reversed: Any, radius: Any, rows: Any) -> Any:
    """Return the least sum of squares over the paths within the band; x is no longer than y.

    Cell (i, j) may be entered where i - radius <= j <= i + (m - n) + radius. Anti-diagonal i + j
    keeps cell i at place i + 1 of its row, between two places that hold infinity.
    """
    n, m = x.size, y_reversed.size
    before, last, now = rows[0], rows[1], rows[2]
    before[: n + 2] = np.inf
    last[: n + 2] = np.inf
    now[: n + 2] = np.inf
    corner = x[0] - y_reversed[m - 1]
    last[1] = corner * corner
    for diagonal in range(1, n + m - 1):
        low = max(0, diagonal - m + 1, (diagonal - (m - n) - radius + 1) >> 1)
        stop = min(n - 1, diagonal, (diagonal + radius) >> 1) + 1
        if low < stop:
            turned = m - 1 - diagonal
            _cells(
                x[low:stop],
                y_reversed[turned + low : turned + stop],
                last[low:stop],
                last[low + 1 : stop + 1],
                before[low:stop],
                now[low + 1 : stop + 1],
            )
        # Beyond the last cell infinity still stands: the last one never moves back.
        now[low] = np.inf
        before, last, now = last, now, before
    return last[n]


def _sums(
    flat: Any, turned: Any, starts: Any, sizes: Any, first: Any, second: Any, radius: Any, out: Any
) -> None:
    """Fill in the sums of squares of pairs of curves, which lie one behind the other in flat."""
    rows = np.empty((3, sizes.max() + 2))
    for pair in range(first.size):
        i, j = first[pair], second[pair]
        if sizes[i] > sizes[j]:
            i, j = j, i
        x = flat[starts[i] : starts[i] + sizes[i]]
        y_reversed = turned[starts[j] : starts[j] + sizes[j]]
        # As wide as the longer curve is no band at all.
        width = sizes[j] if radius < 0 else min(radius, sizes[j])
        out[pair] = _squares(x, y_reversed, width, rows)


_ONES, _NONE = np.ones(1), np.zeros(1, np.int64)

#: The sums as machine code.
fill_sums = jit.compiled(_sums, _ONES, _ONES, _NONE, _NONE + 1, _NONE, _NONE, -1, np.empty(1))
