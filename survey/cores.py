"""The cores of this machine."""

from __future__ import annotations

import os


def local_cores() -> int:
    """Return the cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
