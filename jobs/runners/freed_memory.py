"""Memory that a call frees, and the next one of the same forward pass on a processor asks for.

The GNU C library hands blocks of over 32 MiB back to the system, which fills each page with zeros
when it is asked for again: up to half of the time of a pass where pages are dear, as in a virtual
machine. Another C library is left as it is.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: Parameters of ``mallopt``, from ``malloc.h``: when free memory goes back, which blocks come from
#: the system directly, and how many threads have memory of their own.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8

#: Bytes of the greatest block that is kept: greater ones leave gaps that add up.
GREATEST_KEPT = 2**26

#: Bytes of the greatest block that the C library may come to keep by itself.
_GREATEST_USUAL = 2**25


@contextmanager
def kept_memory() -> Iterator[None]:
    """Keep what is freed, until ``return_freed_memory``; at the end, keep what is usual."""
    _keep(GREATEST_KEPT, 2**31 - 1)
    try:
        yield
    finally:
        _keep(_GREATEST_USUAL, 2 * _GREATEST_USUAL)
        return_freed_memory()


def return_freed_memory() -> None:
    """Give the system back what is free: before a pass, since gaps of several passes add up."""
    if (trim := _function("malloc_trim")) is not None:
        trim(0)


def share_memory() -> None:
    """Let the threads of a worker's process share memory: that of their own is not kept."""
    if (mallopt := _function("mallopt")) is not None:
        mallopt(_ARENA_MAX, 1)


def _keep(greatest: int, free: int) -> None:
    if (mallopt := _function("mallopt")) is not None:
        mallopt(_MMAP_THRESHOLD, greatest)
        mallopt(_TRIM_THRESHOLD, free)


def _function(name: str) -> Any:
    """Return a function of the C library; None where it has no such one."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
