"""Model sources and how an architecture is found by name.

A new source is one module here and one entry in ``SOURCES``. Importing this package imports
neither torch nor torchvision; a source does, once it is asked.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib.metadata import EntryPoint, entry_points
from itertools import islice
from typing import cast

from catalog.models.base import Architecture, InputTransform, ModelSource
from catalog.models.python import PythonSource
from catalog.models.small import SmallSource
from catalog.models.ssl import SslSource
from catalog.models.timm import TimmSource
from catalog.models.torchvision import TorchvisionSource
from survey.errors import CatalogError, UnknownName

__all__ = [
    "ENTRY_POINTS",
    "SOURCES",
    "Architecture",
    "InputTransform",
    "ModelSource",
    "find",
    "sources",
]

#: Every source, in the order in which their models are listed. The lightest to ask comes first, and
#: a name alone means the first source's that has it: ``resnet50`` is torchvision's.
SOURCES: tuple[ModelSource, ...] = (
    SmallSource(),
    TorchvisionSource(),
    SslSource(),
    TimmSource(),
    PythonSource(),
)

#: Where packages announce sources of their own: classes or objects like those above.
ENTRY_POINTS = "model_zoo_survey.sources"


@functools.cache
def sources() -> tuple[ModelSource, ...]:
    """Return every source: ours, then those that installed packages bring.

    Raises
    ------
    CatalogError
        If a package's source cannot be loaded, is none, or has the name of another.
    """
    found = list(SOURCES)
    for entry in entry_points(group=ENTRY_POINTS):
        source = _brought(entry)
        if any(source.name == other.name for other in found):
            raise CatalogError(
                f"the model source {source.name!r} of {entry.value} has the name of another",
                hint="rename one of them, or uninstall its package",
            )
        found.append(source)
    return tuple(found)


def _brought(entry: EntryPoint) -> ModelSource:
    try:
        loaded = entry.load()
        source = loaded() if isinstance(loaded, type) else loaded
    except Exception as problem:
        raise CatalogError(
            f"the model source {entry.value} cannot be loaded: {type(problem).__name__}: {problem}",
            hint="mend its package, or uninstall it",
        ) from problem
    lacking = [name for name in ("name", "names", "get", "published") if not hasattr(source, name)]
    if lacking:
        raise CatalogError(
            f"the model source {entry.value} lacks {', '.join(lacking)}",
            hint="see catalog.models.base.ModelSource for what a source offers",
        )
    return cast("ModelSource", source)


_GLOB_CHARACTERS = frozenset("*?[")


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
    if _GLOB_CHARACTERS & set(name):
        found = _matching(source, name)
    else:
        # Sources are asked one after another: the first that has a name alone spares the others.
        named = _named(source, name)
        found = list(named if separator else islice(named, 1))
    if not found and source == PythonSource.name:
        # Its own refusal says how such a name is written; there are no close ones.
        PythonSource().get(name)
    if not found:
        raise UnknownName("architecture", pattern, _known(bare=not separator))
    return found


def _matching(source_glob: str, name_glob: str) -> list[Architecture]:
    return [
        source.get(name)
        for source in _sources(source_glob)
        for name in source.names()
        if fnmatchcase(name, name_glob)
    ]


def _named(source_glob: str, name: str) -> Iterator[Architecture]:
    for source in _sources(source_glob):
        try:
            yield source.get(name)
        except UnknownName:
            continue


def _sources(source_glob: str) -> list[ModelSource]:
    return [source for source in sources() if fnmatchcase(source.name, source_glob)]


def _known(*, bare: bool) -> list[str]:
    return [
        name if bare else f"{source.name}:{name}" for source in sources() for name in source.names()
    ]
