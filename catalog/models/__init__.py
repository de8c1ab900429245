"""Model sources, and architectures by name.

A new source is one module here and one entry in ``SOURCES``, or an entry point of the group
``model_zoo_survey.sources`` in an installed package: an object like those below, or its class.
Importing this package imports neither torch nor torchvision; a source does, once it is asked.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import islice
from typing import cast

from catalog.models.base import Architecture, InputTransform, ModelSource
from catalog.models.cifar import CifarSource
from catalog.models.memory import MemorySource
from catalog.models.python import PythonSource
from catalog.models.self_supervised import SelfSupervisedSource
from catalog.models.suggestions import unknown_pattern
from catalog.models.timm import TimmSource
from catalog.models.torchvision import TorchvisionSource
from survey.errors import CatalogError, UnknownName
from survey.extensions import Extensions, load_extensions

__all__ = [
    "SOURCES",
    "Architecture",
    "InputTransform",
    "ModelSource",
    "find",
    "fits_several",
    "installed_sources",
    "sources",
]

#: Every source, in the order in which their models are listed. The lightest to ask comes first, and
#: a name alone means the first source's that has it: ``resnet50`` is torchvision's.
SOURCES: tuple[ModelSource, ...] = (
    CifarSource(),
    TorchvisionSource(),
    SelfSupervisedSource(),
    TimmSource(),
    PythonSource(),
    MemorySource(),
)


def sources() -> tuple[ModelSource, ...]:
    """Return every source: ours, then those that installed packages bring."""
    return (*SOURCES, *installed_sources().loaded)


@functools.cache
def installed_sources() -> Extensions[ModelSource]:
    """Return the sources of installed packages, and those that cannot be used."""
    taken = {source.name for source in SOURCES}

    def accept(brought: object) -> ModelSource:
        source = brought() if isinstance(brought, type) else brought
        parts = ("name", "names", "get", "published")
        if lacking := [part for part in parts if not hasattr(source, part)]:
            raise CatalogError(f"it lacks {', '.join(lacking)} of catalog.models.ModelSource")
        accepted = cast("ModelSource", source)
        if accepted.name in taken:
            raise CatalogError(f"another source has the name {accepted.name!r}")
        # A source that cannot list its models would fail every listing and suggestion.
        accepted.names()
        taken.add(accepted.name)
        return accepted

    return load_extensions("model source", accept)


#: What makes a name a glob.
_GLOB_CHARACTERS = frozenset("*?[")


def fits_several(pattern: str) -> bool:
    """Return whether a name is a glob; the ``?`` of a user's function begins its arguments."""
    return bool(_GLOB_CHARACTERS & set(pattern)) and not pattern.startswith(PythonSource.name + ":")


def find(pattern: str) -> list[Architecture]:
    """Return the architectures that a name or glob means.

    Parameters
    ----------
    pattern : str
        ``source:name``, exact or a glob such as ``torchvision:resnet*``; or a name alone, which
        means the first source's that has it.

    Returns
    -------
    list of Architecture
        At least one; several only for a glob, in the order of ``SOURCES`` and of their names.

    Raises
    ------
    UnknownName
        If nothing has that name or fits that glob.
    """
    source, separator, name = pattern.partition(":")
    if not separator:
        source, name = "*", pattern
    asked = [each for each in sources() if fnmatchcase(each.name, source)]
    if fits_several(pattern):
        matches = [
            each.get(other) for each in asked for other in each.names() if fnmatchcase(other, name)
        ]
    else:
        # Sources are asked one after another: the first that has a name alone spares the others.
        named = _named(asked, name)
        matches = list(named if separator else islice(named, 1))
    if not matches:
        for each in asked:
            if each.name in (PythonSource.name, MemorySource.name) and separator:
                # Its own refusal says how such a name is written; there are no close ones.
                each.get(name)
        known = (f"{each.name}:{other}" for each in sources() for other in each.names())
        unknown = unknown_pattern("architecture", pattern, known)
        broken = installed_sources().broken
        if broken and separator and not asked:
            unknown.hint = "; ".join(map(str, broken))
        raise unknown
    return matches


def _named(asked: Iterable[ModelSource], name: str) -> Iterator[Architecture]:
    for source in asked:
        try:
            yield source.get(name)
        except UnknownName:
            continue
