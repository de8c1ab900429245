"""Whether a file of weights fits a network, by keys and shapes: nothing is loaded."""

from __future__ import annotations

import functools
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.checkpoint_references import Checkpoint, build_seeded
from catalog.models.base import Architecture
from survey.errors import CatalogError, CheckpointError

if TYPE_CHECKING:
    from torch import nn

    from catalog.weights.content import Content

#: A network whose shapes show in its first forward pass, or that is built in other ways alone.
_UNKNOWN = (RuntimeError, NotImplementedError, TypeError, ValueError, CatalogError)
#: Verdicts without it are from before classifiers of any size fitted.
_ANY_CLASSES = " any classes"

#: Where the networks of a source are defined, beside a user's code.
_PACKAGES = {"torchvision": "torchvision", "timm": "timm", "small": "model-zoo-survey"}


def misfit(architecture: Architecture, *files: Path) -> str | None:
    """Return why the weights of a file, or of several shards, cannot be loaded into a network.

    The files' headers are read, and the network built without values where it can be.

    Returns
    -------
    str or None
        How the keys or shapes differ, or why the file cannot be read; None if it fits, or if that
        shows only when it is loaded.
    """
    from catalog.weights.content import joint_content
    from catalog.weights.reading import read_header
    from catalog.weights.strict_loading import differences

    try:
        content = joint_content(files, read_header)
    except (CheckpointError, OSError) as problem:
        return str(getattr(problem, "message", problem))
    try:
        return differences(
            _without_values(architecture, _classes_in(architecture, content)), content
        )
    except CheckpointError as problem:
        return problem.message
    except _UNKNOWN:
        return None


def classes_of(architecture: Architecture, checkpoint: Checkpoint) -> int:
    """Return how many classes a network tells apart with these weights; 0 without a classifier.

    Raises
    ------
    CheckpointError
        If the weights are a file that cannot be read.
    """
    if checkpoint.published is not None:
        known = checkpoint.published.classes if checkpoint.classifies else 0
        return architecture.classes if known is None else known
    if not checkpoint.of_user:
        return architecture.classes
    from catalog.weights.content import joint_content
    from catalog.weights.reading import read_header

    content = joint_content(checkpoint.files, read_header)
    try:
        return _classes_in(architecture, content)
    except _UNKNOWN:
        return architecture.classes


def _classes_in(architecture: Architecture, content: Content) -> int:
    from catalog.weights.classifier import classes_in

    return classes_in(content, architecture, functools.partial(_without_values, architecture))


def definition_version(architecture: Architecture) -> str | None:
    """Return the version of what defines a network and reads files; None where that has none."""
    ours = f"{version('model-zoo-survey')} torch {version('torch')}{_ANY_CLASSES}"
    if architecture.code_sha256:
        return f"{architecture.code_sha256} {ours}"
    try:
        return f"{version(_PACKAGES[architecture.source])} {ours}"
    except (KeyError, PackageNotFoundError):
        return None


@functools.lru_cache(maxsize=8)
def _without_values(architecture: Architecture, classes: int) -> nn.Module:
    import torch

    from catalog.weights.classifier import build_for

    build = functools.partial(build_for, architecture, classes)
    with warnings.catch_warnings():
        # A function that loads weights itself is warned that they go nowhere.
        warnings.simplefilter("ignore")
        try:
            with torch.device("meta"):
                return build()
        except _UNKNOWN:
            # Some networks compute with their values while they are built.
            return build_seeded(build, 0).to("meta")
