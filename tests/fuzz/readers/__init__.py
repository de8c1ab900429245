"""Readers of strangers' bytes, each a target of ``tests.fuzz.campaign``."""

from __future__ import annotations

import contextlib
from pathlib import Path

from survey.errors import SurveyError
from tests.fuzz.readers import (
    client,
    datasets,
    downloads,
    home,
    queries,
    service,
    state,
    text,
    weights,
)
from tests.fuzz.readers.base import Target

TARGETS: dict[str, Target] = {
    name: target
    for module in (weights, datasets, downloads, home, text, queries, service, client, state)
    for name, target in module.TARGETS.items()
}

_CORPUS = Path(__file__).parents[1] / "corpus"


def kept(name: str) -> list[bytes]:
    """Return what campaigns have brought up for a target, so that it never comes again."""
    folder = _CORPUS / name
    return [path.read_bytes() for path in sorted(folder.glob("*"))] if folder.is_dir() else []


def run(name: str, data: bytes, folder: Path) -> None:
    """Give some bytes to a target; the product's own errors are what should come of most."""
    # An error of the system is one that the command line explains.
    with contextlib.suppress(SurveyError, OSError):
        TARGETS[name].read(data, folder)
