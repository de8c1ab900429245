"""Memory that a forward pass on a processor frees, and the next one asks for again.

The GNU C library hands blocks of over 32 MiB back to the system, which fills each page with zeros
when it is asked for again: half of the time of a pass where pages are dear, as in a virtual
machine. Another C library is left as it is.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

#: Parameters of ``mallopt``, from ``malloc.h``: when free memory goes back, which blocks come from
#: the system directly, and how many threads have memory of their own.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8

#: Bytes of the greatest block that is kept: greater ones would leave gaps of half a pass's memory.
GREATEST_KEPT = 2**27


def keep_freed_memory() -> None:
    """Keep what is freed; in a process that does nothing but measure."""
    if (mallopt := _function("mallopt")) is None:
        return
    # Other threads' memory is of 64 MiB at most, and goes back.
    mallopt(_ARENA_MAX, 1)
    mallopt(_MMAP_THRESHOLD, GREATEST_KEPT)
    mallopt(_TRIM_THRESHOLD, 2**31 - 1)


def return_freed_memory() -> None:
    """Give the system back what is kept."""
    if (trim := _function("malloc_trim")) is not None:
        trim(0)


def _function(name: str) -> Any:
    """Return a function of the C library; None where it has no such one."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
