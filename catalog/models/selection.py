"""What the name of a model stands for: architectures, with or without a choice of weights.

A name is that of an architecture (``torchvision:resnet50``), of published weights
(``ssl:swav_800``), a glob over either, or a set (``paper``).
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from catalog.models import find, fits_several, sources
from catalog.models.base import Architecture, Published
from catalog.models.published import look_up, published, published_by
from catalog.models.sets import SETS
from survey.errors import UnknownName


@dataclass(frozen=True, slots=True)
class Match:
    """One architecture that a name stands for."""

    architecture: Architecture
    #: The published weights that the name itself states; None where it leaves them open.
    weights: str | None = None


def select(pattern: str) -> list[Match]:
    """Return what a name, a glob or a set stands for.

    Parameters
    ----------
    pattern : str
        ``torchvision:resnet50``, ``torchvision:resnet50/IMAGENET1K_V2``, ``ssl:swav_*``,
        ``timm:convnext*``, ``paper``, ...

    Returns
    -------
    list of Match
        At least one.

    Raises
    ------
    UnknownName
        If nothing has that name or fits that glob.
    """
    if pattern in SETS:
        return [_with_weights(published(name)) for name in SETS[pattern].members]
    if weights := look_up(pattern):
        return [_with_weights(weights)]
    try:
        return [Match(architecture) for architecture in find(pattern)]
    except UnknownName as unknown:
        matching = [_with_weights(weights) for weights in _published_matching(pattern)]
        if not matching:
            raise unknown
        return matching


def is_glob(pattern: str) -> bool:
    """Return whether a name may stand for several models, so that unusable ones are passed over."""
    return pattern in SETS or fits_several(pattern)


def _with_weights(weights: Published) -> Match:
    (architecture,) = find(weights.architecture)
    return Match(architecture, weights.full_name)


def _published_matching(pattern: str) -> list[Published]:
    source_glob, separator, name_glob = pattern.partition(":")
    if not separator or not fits_several(pattern):
        return []
    return [
        weights
        for source in sources()
        if fnmatchcase(source.name, source_glob)
        for name, weights in published_by(source).items()
        if fnmatchcase(name, name_glob)
    ]
