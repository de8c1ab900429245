"""Dynamic time warping as machine code; use it through ``analysis.statistics.dtw``.

Importing this module imports numba and compiles. Pairs of curves are warped side by side, in lanes,
and of each pair a tile of cells at a time: what a cell hands to the next ones stays in registers,
and memory is read and written at the edges of tiles alone. Every cell is (x_i - y_j)^2 + min(...),
in that order, without any reassociation: the sums are those of the plain recursion, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from analysis.statistics import jit

#: Pairs that are warped side by side: whole registers of every processor.
LANES = 32

#: Rows and columns of a tile; the columns are written out in ``_row`` and ``_tile``.
ROWS, COLUMNS = 8, 4


@numba.njit(nogil=True)
def _cell(x: Any, y: Any, left: Any, up: Any, corner: Any) -> Any:
    # The left cell is ready last. `<` becomes the processor's minimum, which `min` does not.
    best = corner if corner < up else up
    best = left if left < best else best
    difference = x - y
    return difference * difference + best


@numba.njit(nogil=True)
def _bounded(cell: Any, walls: Any, place: int) -> Any:
    # Compiled twice: without walls nothing is added.
    return cell if walls is None else cell + walls[place]


@numba.njit(nogil=True)
def _row(x: Any, ys: Any, left: Any, ups: Any, corner: Any, walls: Any, place: int) -> Any:
    """Return a row of a tile, whose first wall is at a place."""
    a = _bounded(_cell(x, ys[0], left, ups[0], corner), walls, place)
    b = _bounded(_cell(x, ys[1], a, ups[1], ups[0]), walls, place + 1)
    c = _bounded(_cell(x, ys[2], b, ups[2], ups[1]), walls, place + 2)
    d = _bounded(_cell(x, ys[3], c, ups[3], ups[2]), walls, place + 3)
    return a, b, c, d


@numba.njit(nogil=True)
def _tile(x: Any, y: Any, top: Any, left: Any, corner: Any, walls: Any) -> None:
    """Move from the cells above a tile and left of it to its last row and column.

    Value k of lane l is at k * LANES + l. The loop over lanes is the one that is vectorised; that
    over rows is unrolled.
    """
    for lane in range(LANES):
        ys = y[lane], y[LANES + lane], y[2 * LANES + lane], y[3 * LANES + lane]
        ups = top[lane], top[LANES + lane], top[2 * LANES + lane], top[3 * LANES + lane]
        before, corner[lane] = corner[lane], ups[3]
        for row in range(ROWS):
            first = left[row * LANES + lane]
            ups = _row(x[row * LANES + lane], ys, first, ups, before, walls, row * COLUMNS)
            before, left[row * LANES + lane] = first, ups[3]
        top[lane], top[LANES + lane], top[2 * LANES + lane], top[3 * LANES + lane] = ups


@numba.njit(nogil=True)
def _has_walls(ahead: int, low: int, high: int, walls: Any) -> bool:
    """Fill in walls, infinite beyond the band, of a tile; return whether there are any.

    Its first cell is in the column that is ``ahead`` of its row; within the band a cell is ``low``
    to ``high`` ahead.
    """
    if low <= ahead - ROWS + 1 and ahead + COLUMNS - 1 <= high:
        return False
    for row in range(ROWS):
        for column in range(COLUMNS):
            inside = low <= ahead + column - row <= high
            walls[row * COLUMNS + column] = 0.0 if inside else np.inf
    return True


@numba.njit(nogil=True)
def _warp(x: Any, y: Any, top: Any, low: int, high: int) -> None:
    """Fill in the last row of cells of the pairs that lie side by side in x and y.

    Cell (i, j) may be entered where i + low <= j <= i + high.
    """
    left, corner = np.empty(ROWS * LANES, x.dtype), np.empty(LANES, x.dtype)
    walls = np.empty(ROWS * COLUMNS, x.dtype)
    top[:] = np.inf
    for i in range(0, x.size // LANES, ROWS):
        start = max(0, i + low) // COLUMNS * COLUMNS
        left[:] = np.inf
        corner[:] = np.inf
        if start > 0:
            corner[:] = top[(start - 1) * LANES : start * LANES]
        elif i == 0:
            corner[:] = 0.0
        for j in range(start, min(y.size // LANES, i + ROWS + high), COLUMNS):
            rows = x[i * LANES : (i + ROWS) * LANES]
            columns = slice(j * LANES, (j + COLUMNS) * LANES)
            if _has_walls(j - i, low, high, walls):
                _tile(rows, y[columns], top[columns], left, corner, walls)
            else:
                _tile(rows, y[columns], top[columns], left, corner, None)


@numba.njit(nogil=True)
def _lay(flat: Any, starts: Any, sizes: Any, curves: Any, stop: int, out: Any) -> None:
    """Lay curves side by side so that they end before a place.

    What is before a curve is far from every value but itself: a path costs nothing up to the first
    cell of a pair, and enters it there alone. Squares of values that are as far have no room.
    """
    out[: stop * LANES] = np.sqrt(np.finfo(flat.dtype).max) / 16
    out[stop * LANES :] = 0.0
    for lane in range(LANES):
        curve = curves[min(lane, curves.size - 1)]
        first = stop - sizes[curve]
        for k in range(sizes[curve]):
            out[(first + k) * LANES + lane] = flat[starts[curve] + k]


def _sums(
    flat: Any, starts: Any, sizes: Any, first: Any, second: Any, radius: Any, out: Any
) -> None:
    """Fill in the sums of squares of pairs of curves, which lie one behind the other in flat.

    Of each pair the first curve is no longer than the second. In a band, pairs are warped side by
    side where the lengths of their curves differ by as much.
    """
    longest = sizes.max() + ROWS + COLUMNS
    x, y = np.empty(longest * LANES, flat.dtype), np.empty(longest * LANES, flat.dtype)
    top = np.empty(longest * LANES, flat.dtype)
    start = 0
    while start < first.size:
        shift = sizes[second[start]] - sizes[first[start]]
        stop, n, m = start, 0, 0
        while stop < min(start + LANES, first.size) and (
            radius < 0 or sizes[second[stop]] - sizes[first[stop]] == shift
        ):
            n, m = max(n, sizes[first[stop]]), max(m, sizes[second[stop]])
            stop += 1
        # Before each curve is a value at least.
        n = (n // ROWS + 1) * ROWS
        m, low, high = m + 1, -longest, longest
        if radius >= 0:
            m, low, high = n + shift, -radius, shift + radius
        width = -(-m // COLUMNS) * COLUMNS
        _lay(flat, starts, sizes, first[start:stop], n, x[: n * LANES])
        _lay(flat, starts, sizes, second[start:stop], m, y[: width * LANES])
        _warp(x[: n * LANES], y[: width * LANES], top[: width * LANES], low, high)
        out[start:stop] = top[(m - 1) * LANES :][: stop - start]
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
