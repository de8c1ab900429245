"""The frames of what a home holds, kept by a process that computes answers and pages of them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from analysis.answers.material import Material
from analysis.choices import Role
from analysis.data.selection import Selection
from catalog.copied_home import copy_of
from catalog.open_home import open_home

#: The one that is kept.
_LAST: list[Material] = []


@lru_cache(maxsize=1)
def kept_material(
    kind: type[Material], home: Path, _revision: str, selection: Selection, role: Role = "all"
) -> Any:
    """Return the material of a selection, of the class; the one asked for last is kept.

    What a home holds is read once for each revision of it. One is kept, as of 30,000 runs it takes
    gigabytes.
    """
    # Its answers name it: without forgetting them, it would be held while the next one is read.
    kept_material.cache_clear()
    while _LAST:
        _LAST.pop().answers.clear()
    copy_of(open_home(home, create=False)).update()
    _LAST.append(kind(home, selection, role, copied=True))
    return _LAST[0]
