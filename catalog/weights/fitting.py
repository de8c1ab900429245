"""How a user's file goes into a network: where its weights lie, and which classifier they have."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import torch
from torch import nn

from catalog.models.base import Architecture, KeyRules
from catalog.weights.content import Content
from catalog.weights.keys import best_form, missing_keys, network_prefixes
from catalog.weights.strict_loading import differences
from survey.errors import CheckpointError

#: Layers that do nothing in eval mode, or to vectors; some classifiers end in them.
_IDLE = (nn.Identity, nn.Dropout, nn.Flatten)
#: Five times those of the whole ImageNet; a few bytes of a file may claim any number.
_CLASSES_AT_MOST = 100_000

#: Builds a network with a number of outputs.
Build = Callable[[int], nn.Module]


@dataclass(frozen=True, slots=True)
class Fit:
    """How a user's file goes into a network."""

    #: The outputs of the file's classifier, 0 where it has none; the architecture's own where their
    #: number is fixed, or the file does not fit.
    classes: int
    #: How the file's keys become the network's.
    rules: KeyRules


def fit_of(content: Content, architecture: Architecture, build: Build, part: str | None) -> Fit:
    """Return how a user's file goes into a network.

    The classifier may be another one, or missing. Beside the weights, which must be whole below one
    prefix, there may be other things: losses, means of the training, heads of self-supervision. Of
    several networks the one at the top, below no prefix, is meant where no part is.

    Parameters
    ----------
    content : Content
        The file, or its header alone.
    architecture : Architecture
        What the weights are for.
    build : callable
        Builds the network with a number of outputs.
    part : str, optional
        The part of the file that is meant.

    Raises
    ------
    CheckpointError
        If the file holds no named tensors, or the network's classifier cannot be taken off.
    """
    container, prefix = content.part(part) if part else ((), "")
    own = Fit(architecture.classes, KeyRules(container=container, prefix=prefix))
    network = build(own.classes)
    if differences(network, content, own.rules) is None:
        return own
    before = network.state_dict()
    keys = content.weights(container).tensors
    inside = [each for each in network_prefixes(keys, before) if each.startswith(prefix)]
    if not inside:
        return own
    # The classifier is what changes with the number of outputs.
    after = build(own.classes + 1).state_dict() if architecture.build_with else before
    head = {key: t for key, t in after.items() if key not in before or before[key].shape != t.shape}
    # Which of several networks is meant the user says, but for one that has no name: at the top.
    prefixes = dict.fromkeys((prefix, *inside)) if len(inside) == 1 else (prefix,)
    others = [each for each in inside if each] if part is None and "" in inside else []
    plain = replace(own.rules, drop=tuple(f"{glob.escape(each)}*" for each in others))
    forms = [form for each in prefixes for form in _forms(keys, plain, each, head)]
    for rules in sorted(forms, key=lambda form: len(form.drop)):
        classes = _classes(content, rules, after, head) if head else own.classes
        if classes is not None and differences(build(classes), content, rules) is None:
            return Fit(classes, rules)
    return own


def _forms(
    keys: Mapping[str, torch.Tensor], rules: KeyRules, prefix: str, head: Iterable[str]
) -> Iterator[KeyRules]:
    """Yield ways in which a file may hold a network below a prefix, without its classifier last."""
    rules = replace(rules, prefix=prefix)
    yield rules
    modules = sorted({key.rpartition(".")[0] for key in head} - {""})
    for module in modules:
        below = {
            key[len(prefix) :]: tensor
            for key, tensor in keys.items()
            if key.startswith(f"{prefix}{module}.")
        }
        # Such as Sequential(Dropout, Linear) in the place of a layer.
        layers = {key.rpartition(".")[0] for key in below}
        matrices = [key for key, tensor in below.items() if tensor.ndim == 2]
        if len(layers) == len(matrices) == 1:
            yield replace(rules, moved=(f"{layers.pop()}.", f"{module}."))
    yield replace(rules, drop=(*rules.drop, *(f"{module}.*" for module in modules)))


def _classes(
    content: Content,
    rules: KeyRules,
    network: Mapping[str, torch.Tensor],
    head: Mapping[str, torch.Tensor],
) -> int | None:
    """Return the outputs of a file's classifier, 0 without one; None where more is missing."""
    tensors = best_form(content, (replace(rules, drop=()),), network).tensors
    # A classifier that is damaged is no head of another kind.
    damaged = any(fnmatchcase(k, drop) for k in head.keys() & tensors for drop in rules.drop)
    if damaged or not head.keys() >= set(missing_keys(network, tensors)):
        return None
    sizes = {tensors[key].shape[:1].numel() for key in head if key in tensors}
    classes = sizes.pop() if len(sizes) == 1 else 0
    return classes if classes <= _CLASSES_AT_MOST else None


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
