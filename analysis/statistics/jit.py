"""Compiling functions by numba, with its cache on disk where that can be written.

Importing this module imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numba


def compiled(function: Callable[..., Any], *probe: object) -> Callable[..., Any]:
    """Return a function, compiled.

    Parameters
    ----------
    function : callable
        What numba can compile.
    *probe : object
        Arguments to call it with once, of the types that it will be called with.

    Returns
    -------
    callable
        The same function; compiled on its first call where nothing could be kept.
    """
    try:
        kept = numba.njit(function, nogil=True, cache=True)
        kept(*probe)
    except Exception:  # noqa: BLE001 - no folder to keep it in, a full disk, a damaged file, ...
        return cast("Callable[..., Any]", numba.njit(function, nogil=True))
    return cast("Callable[..., Any]", kept)
