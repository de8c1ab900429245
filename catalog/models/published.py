"""Published weights by name, and which of them an architecture has."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from catalog.models import sources
from catalog.models.base import Architecture, ModelSource, Published
from catalog.models.ssl import ALIASES
from survey.errors import UnknownName

_log = logging.getLogger(__name__)


def published(full_name: str) -> Published:
    """Return published weights by their full name or another name they go by.

    Parameters
    ----------
    full_name : str
        Such as ``torchvision:resnet50/IMAGENET1K_V2``, ``timm:resnet50.a1_in1k`` or
        ``ssl:swav_800``.

    Raises
    ------
    UnknownName
        If nobody publishes weights of that name.
    """
    weights = look_up(full_name)
    if weights is None:
        source = full_name.partition(":")[0]
        known = [f"{source}:{name}" for each in _named(source) for name in published_by(each)]
        raise UnknownName("published checkpoint", full_name, known)
    return weights


def look_up(full_name: str) -> Published | None:
    """Return published weights by their full name or another name; None if there are none."""
    full_name = canonical(full_name)
    source, _, name = full_name.partition(":")
    for each in _named(source):
        if name in published_by(each):
            return published_by(each)[name]
    return None


def canonical(full_name: str) -> str:
    """Return the first name of what goes by several; any other name as it is."""
    return ALIASES.get(full_name, full_name)


def other_names(weights: Published) -> list[str]:
    """Return the other names, in full, that published weights go by."""
    return [alias for alias, name in ALIASES.items() if name == weights.full_name]


def published_for(architecture: Architecture) -> list[Published]:
    """Return all weights published for an architecture: its own source's, then others'."""
    first = _named(architecture.source)
    # A source without architectures of its own publishes weights for those of others.
    others = [s for s in sources() if s not in first and not s.names()] if first else []
    return [
        weights
        for source in (*first, *others)
        for weights in published_by(source).values()
        if weights.architecture == architecture.full_name
    ]


def default_for(architecture: Architecture) -> Published | None:
    """Return the weights that an architecture's name alone stands for; None without any."""
    return next((weights for weights in published_for(architecture) if weights.default), None)


def _named(source: str) -> list[ModelSource]:
    return [each for each in sources() if each.name == source]


def published_by(source: ModelSource) -> Mapping[str, Published]:
    """Return what a source publishes, by name; where it fails, nothing, and a warning."""
    if source not in _KNOWN:
        try:
            _KNOWN[source] = {weights.name: weights for weights in source.published()}
        except Exception as problem:  # noqa: BLE001 - anything may go wrong in another's package
            _log.warning(
                "the weights of the model source %s are left out: %r", source.name, problem
            )
            _KNOWN[source] = {}
    return _KNOWN[source]


#: What each source publishes, asked for once.
_KNOWN: dict[ModelSource, Mapping[str, Published]] = {}
