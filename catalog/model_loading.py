"""Models with the weights of a checkpoint in them.

What a file of weights may hold is the business of ``catalog.weights.reading``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from catalog.checkpoint_references import Checkpoint, build_seeded, state_sha256
from catalog.model_fit import fit_for
from catalog.models.base import Architecture, Published
from survey.errors import CheckpointError

if TYPE_CHECKING:
    from torch import nn

    from catalog.weights.strict_loading import Adapt


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A network with its weights in it."""

    #: On the CPU, in float32 and in eval mode.
    model: nn.Module = field(repr=False)
    #: Entries of the file that are not tensors and were left out.
    dropped_keys: tuple[str, ...]
    #: sha256 (hex) of the file's bytes, or of the text ``init:SEED``.
    sha256: str
    #: How many classes its outputs stand for; 0 where they are features, or nobody knows.
    classes: int


def load_model(architecture: Architecture, checkpoint: Checkpoint) -> LoadedModel:
    """Build a network and put its weights in, leaving torch's random state as it was.

    Raises
    ------
    CheckpointError
        If the file is not here, cannot be read safely or does not fit the architecture exactly; or
        if a network whose weights are to be random has the same ones under another seed.
    """
    published = checkpoint.published
    # First: what is no file is refused here.
    sha256 = None if checkpoint.kind == "built" else checkpoint.sha256()
    fit = fit_for(architecture, checkpoint)
    model = build_seeded(_building(architecture, checkpoint, fit.classes), checkpoint.seed or 0)
    sha256 = sha256 or state_sha256(model)
    if checkpoint.kind == "init" and architecture.brings_weights:
        _check_seeded(architecture, model, checkpoint.seed or 0)
    if checkpoint.path is None:
        return LoadedModel(model.eval(), (), sha256, fit.classes)
    from catalog.weights.fitting import without_classifier
    from catalog.weights.strict_loading import load_weights

    if not checkpoint.classifies:
        model = without_classifier(model)
    adapt = _adapting(published) if published else None
    try:
        dropped = load_weights(model, checkpoint.files, architecture.full_name, fit.rules, adapt)
    except CheckpointError as problem:
        if published is None:
            raise
        anew = f"to get {checkpoint.reference} anew, remove {checkpoint.path} and run survey fetch"
        raise CheckpointError(problem.message, hint=f"{problem.hint}; {anew}") from problem
    return LoadedModel(model.eval(), dropped, sha256, fit.classes)


def _check_seeded(architecture: Architecture, model: nn.Module, seed: int) -> None:
    """Refuse parameters that are the same under another seed: they are not random."""
    import torch
    from torch.nn.parameter import is_lazy

    parameters = list(model.parameters())
    if not parameters or any(map(is_lazy, parameters)):
        return
    others = build_seeded(architecture.build, seed ^ 1).parameters()
    if all(map(torch.equal, parameters, others)):
        raise CheckpointError(
            f"{architecture.full_name} has the same weights under init:{seed} and init:{seed ^ 1},"
            " must draw them from torch's random numbers",
            hint="name the checkpoint built for the weights that it brings, or a function that"
            " loads none",
        )


def _building(
    architecture: Architecture, checkpoint: Checkpoint, classes: int
) -> Callable[[], nn.Module]:
    """Return what builds the network that a checkpoint's weights are for."""
    if checkpoint.of_user:
        from catalog.weights.fitting import build_for

        return functools.partial(build_for, architecture, classes)
    return (checkpoint.published and checkpoint.published.build) or architecture.build


def _adapting(published: Published) -> Adapt | None:
    """Return what timm does to a file's weights; other libraries' files hold them as they are."""
    if published.source != "timm":
        return None
    from catalog.models.timm import adapt

    return functools.partial(adapt, published)
