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
    from catalog.weights.fitting import Fit

#: A network whose shapes show in its first forward pass, or that is built in other ways alone.
_UNKNOWN = (RuntimeError, NotImplementedError, TypeError, ValueError, CatalogError)
#: Changes with what fits: verdicts with another are from before.
_FITTING = " the top, parts, settings and any classifier"

#: Where the networks of a source are defined, beside a user's code.
_PACKAGES = {"torchvision": "torchvision", "timm": "timm", "small": "model-zoo-survey"}


def misfit(architecture: Architecture, *files: Path, part: str | None = None) -> str | None:
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
        fit = _fit(architecture, content, part)
        return differences(_without_values(architecture, fit.classes), content, fit.rules)
    except (CheckpointError, OSError) as problem:
        return str(getattr(problem, "message", problem))
    except _UNKNOWN:
        return None


def fit_for(architecture: Architecture, checkpoint: Checkpoint) -> Fit:
    """Return how the weights of a checkpoint go into a network.

    Raises
    ------
    CheckpointError
        If the weights are a file that cannot be read.
    """
    from catalog.models.base import KeyRules
    from catalog.weights.content import joint_content
    from catalog.weights.fitting import Fit
    from catalog.weights.reading import read_header

    if (published := checkpoint.published) is not None:
        known = published.classes if checkpoint.classifies else 0
        return Fit(architecture.classes if known is None else known, published.rules)
    plain = Fit(architecture.classes, KeyRules())
    if not checkpoint.of_user:
        return plain
    content = joint_content(checkpoint.files, read_header)
    try:
        return _fit(architecture, content, checkpoint.part)
    except CheckpointError:
        raise
    except _UNKNOWN:
        return plain


def _fit(architecture: Architecture, content: Content, part: str | None) -> Fit:
    from catalog.weights.fitting import fit_of

    return fit_of(content, architecture, functools.partial(_without_values, architecture), part)


def definition_version(architecture: Architecture) -> str | None:
    """Return the version of what defines a network and reads files; None where that has none."""
    ours = f"{version('model-zoo-survey')} torch {version('torch')}{_FITTING}"
    if architecture.code_sha256:
        return f"{architecture.code_sha256} {ours}"
    try:
        return f"{version(_PACKAGES[architecture.source])} {ours}"
    except (KeyError, PackageNotFoundError):
        return None


@functools.lru_cache(maxsize=8)
def _without_values(architecture: Architecture, classes: int) -> nn.Module:
    import torch

    from catalog.weights.fitting import build_for

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
