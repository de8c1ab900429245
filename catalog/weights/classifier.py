"""The classifier of a network: how many classes a file's weights have, and networks to match."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from catalog.models.base import Architecture, KeyRules
from catalog.weights.content import Content
from catalog.weights.keys import best_form, missing_keys
from catalog.weights.strict_loading import differences
from survey.errors import CheckpointError

#: Layers that do nothing in eval mode, or to vectors; some classifiers end in them.
_IDLE = (nn.Identity, nn.Dropout, nn.Flatten)
#: Five times those of the whole ImageNet; a few bytes of a file may claim any number.
_CLASSES_AT_MOST = 100_000

#: Builds a network with a number of outputs.
Build = Callable[[int], nn.Module]


def classes_in(content: Content, architecture: Architecture, build: Build) -> int:
    """Return how many classes a network tells apart with the weights of a file.

    Parameters
    ----------
    content : Content
        The file, or its header alone.
    architecture : Architecture
        What the weights are for.
    build : callable
        Builds the network with a number of outputs.

    Returns
    -------
    int
        The outputs of the file's classifier, 0 where it has none; the architecture's own where
        its number of outputs is fixed, or the file does not fit for another reason.
    """
    own = architecture.classes
    if architecture.build_with is None or differences(build(own), content) is None:
        return own
    # The classifier is what changes with the number of outputs.
    before, after = build(own).state_dict(), build(own + 1).state_dict()
    others = {key: t for key, t in after.items() if key in before and before[key].shape == t.shape}
    tensors = best_form(content, (KeyRules(),), after).tensors
    if missing_keys(others, tensors):
        return own
    sizes = {
        tensors[key].shape[:1].numel() for key in after.keys() - others.keys() if key in tensors
    }
    if len(sizes) > 1 or max(sizes, default=0) > _CLASSES_AT_MOST:
        return own
    return sizes.pop() if sizes else 0


def build_for(architecture: Architecture, classes: int) -> nn.Module:
    """Build a network with a number of outputs; without its classifier for 0.

    Raises
    ------
    CheckpointError
        If it has no classifier that can be taken off.
    """
    if classes == architecture.classes or architecture.build_with is None:
        return architecture.build()
    return architecture.build_with(classes) if classes else without_classifier(architecture.build())


def without_classifier(model: nn.Module) -> nn.Module:
    """Replace a network's classifier, its last layer, by an identity: it then returns features.

    Parameters
    ----------
    model : nn.Module
        The network; changed in place where the classifier is inside it.

    Returns
    -------
    nn.Module
        The network.

    Raises
    ------
    CheckpointError
        If the last layer is not linear, or there are two classifiers beside each other.
    """
    leaves = [
        (name, layer)
        for name, layer in model.named_modules()
        if next(layer.children(), None) is None and not isinstance(layer, _IDLE)
    ] or [("", model)]
    name, last = leaves[-1]
    parent, _, attribute = name.rpartition(".")
    twins = [
        other
        for other, layer in leaves[:-1]
        if other.rpartition(".")[0] == parent
        and isinstance(layer, nn.Linear)
        and isinstance(last, nn.Linear)
        and layer.weight.shape == last.weight.shape
    ]
    if not isinstance(last, nn.Linear) or twins:
        met = f"classifiers beside each other: {', '.join([*twins, name])}" if twins else name
        raise CheckpointError(
            f"the weights come without a classifier, and {type(model).__name__} ends in"
            f" {met or 'itself'} ({type(last).__name__}), must end in one linear layer",
            hint="such weights can be loaded into a network whose last layer is its classifier",
        )
    if not name:
        return nn.Identity()
    setattr(model.get_submodule(parent), attribute, nn.Identity())
    return model
