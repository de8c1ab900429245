"""Published weights by name, and which of them an architecture has."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from catalog.models import sources
from catalog.models.base import Architecture, ModelSource, Published
from catalog.models.self_supervised import ALIASES
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
        known = [f"{source}:{name}" for name in _weights_of(source)]
        raise UnknownName("published checkpoint", full_name, known)
    return weights


def look_up(full_name: str) -> Published | None:
    """Return published weights by their full name or another name; None if there are none."""
    source, _, name = canonical(full_name).partition(":")
    return _weights_of(source).get(name)


def canonical(full_name: str) -> str:
    """Return the first name of what goes by several; any other name as it is."""
    return ALIASES.get(full_name, full_name)


def other_names(weights: Published) -> list[str]:
    """Return the other names, in full, that published weights go by."""
    return [alias for alias, name in ALIASES.items() if name == weights.full_name]


def published_for(architecture: Architecture) -> list[Published]:
    """Return all weights published for an architecture: its own source's, then others'."""
    # A source without architectures of its own publishes weights for those of others.
    others = [s for s in sources() if s.name != architecture.source and not s.names()]
    listed = (_weights_of(architecture.source), *map(published_by, others))
    return [
        weights
        for by_name in listed
        for weights in by_name.values()
        if weights.architecture == architecture.full_name
    ]


def default_for(architecture: Architecture) -> Published | None:
    """Return the weights that an architecture's name alone stands for; None without any."""
    return next((weights for weights in published_for(architecture) if weights.default), None)


def _weights_of(source: str) -> Mapping[str, Published]:
    return next((published_by(each) for each in sources() if each.name == source), {})


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
