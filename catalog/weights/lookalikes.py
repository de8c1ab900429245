"""Lookalikes: which other architecture a file of weights fits, for the message that refuses it.

Networks are built without values, so that trying a family takes a moment and no memory. A module
of its own, since only a refusal needs it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping

import torch

from catalog.models import SOURCES
from catalog.models.base import Architecture
from catalog.weights.keys import COUNTER

#: A larger family is not tried: the answer would take longer than the question.
MOST_TRIED = 24


def lookalike(architecture: str, shapes: Mapping[str, torch.Size]) -> str | None:
    """Return another architecture that weights of these shapes fit exactly.

    Parameters
    ----------
    architecture : str
        Full name of the one they do not fit; its source's names of the same beginning are tried,
        such as ``resnet18`` and ``resnet101`` for ``resnet50``.
    shapes : mapping of str to Size
        Shape by key, without prefixes. The last layer, the classifier, may be missing, or of
        another size.

    Returns
    -------
    str or None
        A full name; None where none fits, or too many would have to be tried.
    """
    wanted = {key: shape for key, shape in shapes.items() if not key.endswith(COUNTER)}
    if not wanted:
        return None
    for relative in _relatives(architecture):
        if _fits(relative, wanted):
            return relative.full_name
    return None


def _relatives(full_name: str) -> Iterator[Architecture]:
    source_name, _, name = full_name.partition(":")
    stem = _stem(name)
    for source in SOURCES:
        if source.name == source_name:
            names = [other for other in source.names() if _stem(other) == stem and other != name]
            yield from map(source.get, names if len(names) <= MOST_TRIED else ())


def _stem(name: str) -> str:
    """Return the letters a name begins with; a wide network has the keys of the plain one."""
    return re.split(r"\d", name.removeprefix("wide_"), maxsplit=1)[0].rstrip("_")


def _fits(architecture: Architecture, wanted: Mapping[str, torch.Size]) -> bool:
    shapes = _shapes(architecture)
    features = dict(list(shapes.items())[:-2])
    return wanted.keys() in (shapes.keys(), features.keys()) and features.items() <= wanted.items()


@functools.lru_cache(maxsize=4 * MOST_TRIED)
def _shapes(architecture: Architecture) -> dict[str, torch.Size]:
    try:
        with torch.device("meta"):
            state = architecture.build().state_dict()
    except (RuntimeError, NotImplementedError, TypeError, ValueError):
        # Some networks compute with their values while they are built.
        return {}
    return {key: tensor.shape for key, tensor in state.items() if not key.endswith(COUNTER)}
