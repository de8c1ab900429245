"""Model sources and how an architecture is found by name.

A new source is one module here and one entry in ``SOURCES``. Importing this package imports
neither torch nor torchvision; a source does, once it is asked.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from catalog.models.base import Architecture, InputTransform, ModelSource
from catalog.models.small import SmallSource
from catalog.models.torchvision import TorchvisionSource
from survey.errors import CatalogError, UnknownName

__all__ = ["SOURCES", "Architecture", "InputTransform", "ModelSource", "find"]

#: Every source, in the order in which their models are listed. The lightest to ask comes first.
SOURCES: tuple[ModelSource, ...] = (SmallSource(), TorchvisionSource())

_GLOB_CHARACTERS = frozenset("*?[")


def find(pattern: str) -> list[Architecture]:
    """Return the architectures that a name or glob means.

    Parameters
    ----------
    pattern : str
        ``source:name``, exact or a glob such as ``torchvision:resnet*``; or a name alone, where
        one source only has it.

    Returns
    -------
    list of Architecture
        At least one; several only for a glob, in the order of ``SOURCES`` and of their names.

    Raises
    ------
    UnknownName
        If nothing has that name or fits that glob.
    CatalogError
        If several sources have the name.
    """
    source, separator, name = pattern.partition(":")
    if not separator:
        source, name = "*", pattern
    look_up = _matching if _GLOB_CHARACTERS & set(name) else _named
    found = look_up(source, name)
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


def _named(source_glob: str, name: str) -> list[Architecture]:
    found = []
    for source in _sources(source_glob):
        try:
            found.append(source.get(name))
        except UnknownName:
            continue
    if len(found) > 1:
        full_names = [architecture.full_name for architecture in found]
        raise CatalogError(
            f"architecture {name!r} is known to {len(found)} sources, must be known to one",
            hint=f"name one of {', '.join(full_names)}",
        )
    return found


def _sources(source_glob: str) -> list[ModelSource]:
    return [source for source in SOURCES if fnmatchcase(source.name, source_glob)]


def _known(*, bare: bool) -> list[str]:
    return [
        name if bare else f"{source.name}:{name}" for source in SOURCES for name in source.names()
    ]
