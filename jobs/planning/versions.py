"""The versions of the libraries that compute the numbers."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from importlib.metadata import version

#: Libraries whose change of version makes jobs stale, for surveys that ask for it.
LIBRARIES = ("torch", "torchvision", "timm", "numpy", "scipy", "numba")

library_version = functools.cache(version)


def versions(libraries: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the name and the installed version of each."""
    return tuple((library, library_version(library)) for library in libraries)
