"""The dip of a distribution function, as machine code; use it through ``analysis.statistics.dip``.

Importing this module imports numba and compiles. Heights are counts: at the k-th different number
x[k], the empirical distribution function rises from below[k] to above[k].
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from analysis.statistics import jit


@numba.njit(nogil=True)
def _hull(x: Any, heights: Any, first: Any, last: Any, sign: Any, line: Any, on: Any) -> None:
    """Fill in the greatest convex function below the heights, and where it touches them.

    With sign -1, the least concave function above them.
    """
    touching = np.empty(last - first + 1, np.int64)
    count = 0
    for i in range(first, last + 1):
        while count > 1:
            a, b = touching[count - 2], touching[count - 1]
            rise = (heights[b] - heights[a]) * (x[i] - x[b])
            if sign * (rise - (heights[i] - heights[b]) * (x[b] - x[a])) < 0:
                break
            count -= 1
        touching[count] = i
        count += 1
        on[i] = False
    on[last], line[last] = True, heights[last]
    for k in range(count - 1):
        a, b = touching[k], touching[k + 1]
        on[a] = True
        slope = (heights[b] - heights[a]) / (x[b] - x[a])
        for i in range(a, b):
            line[i] = heights[a] + slope * (x[i] - x[a])


@numba.njit(nogil=True)
def _widest(under: Any, over: Any, on_under: Any, on_over: Any, first: Any, last: Any) -> Any:
    """Return where the two hulls are farthest apart, of the places that either touches."""
    at = first
    for i in range(first + 1, last + 1):
        if (on_under[i] or on_over[i]) and over[i] - under[i] > over[at] - under[at]:
            at = i
    return at


def _dip(x: Any, below: Any, above: Any) -> Any:
    """Return the dip: an interval that holds the mode shrinks until it fits.

    Outside of the interval the nearest function with one mode is known: half of what the
    distribution function is away from its hull there, or more, is the dip. Inside, the two hulls
    are apart by at most that, in the end.
    """
    under, over = np.empty(x.size), np.empty(x.size)
    on_under, on_over = np.zeros(x.size, np.bool_), np.zeros(x.size, np.bool_)
    first, last, deepest = 0, x.size - 1, 0.0
    while first < last:
        _hull(x, below, first, last, 1.0, under, on_under)
        _hull(x, above, first, last, -1.0, over, on_over)
        low = high = _widest(under, over, on_under, on_over, first, last)
        if over[low] - under[low] <= deepest:
            break
        while not on_under[low]:
            low -= 1
        while not on_over[high]:
            high += 1
        # A jump at either end may be that of the mode itself, and is no distance.
        for i in range(first, low):
            deepest = max(deepest, above[i] - under[i])
        for i in range(high + 1, last + 1):
            deepest = max(deepest, over[i] - below[i])
        if low == first and high == last:
            break
        first, last = low, high
    return deepest / (2.0 * above[-1])


#: The dip as machine code: of the different numbers x, ascending, and their heights.
dip_of_steps = jit.compiled(_dip, np.zeros(1), np.zeros(1), np.ones(1))
