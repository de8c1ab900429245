"""The libraries that numbers pass through, and their versions here."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib.metadata import version

#: Those of which another version may be a reason to measure again, by choice.
LIBRARIES = ("torch", "torchvision", "timm", "numpy", "scipy", "numba")

library_version = functools.cache(version)


def versions(libraries: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the name and the installed version of each."""
    return tuple((library, library_version(library)) for library in libraries)
