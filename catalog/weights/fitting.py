"""Weights fitted to a network strictly: every key in its place, none missing, none left over.

Owns how a file's keys become a network's keys. ``catalog.weights.reading`` reads the file.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from torch import nn

from catalog.models.base import KeyRules
from catalog.weights.lookalikes import lookalike
from catalog.weights.reading import Content, Weights, first_names, read_content
from survey.errors import CheckpointError

#: What wrappers of a network put before every key.
PREFIXES = (
    "module.",
    "model.",
    "_orig_mod.",
    "_fsdp_wrapped_module.",
    "backbone.",
    "encoder.",
    "net.",
    "network.",
)

_FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
#: Layers that do nothing in eval mode, or to vectors; some classifiers end in them.
_IDLE = (nn.Identity, nn.Dropout, nn.Flatten)
_COUNTER = "num_batches_tracked"
#: Dots of a key that are looked at for a message; one of a file may have any number.
_PARTS = 64
#: How many times a network's bytes the tensors of its file may have, heads of other precision
#: included; a few bytes of a file may claim any.
_CLAIMED_AT_MOST = 16
_OLD_DENSENET = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.(?=[12]\.)")


#: Renames weights, or changes their form.
Adapt = Callable[[Mapping[str, torch.Tensor]], dict[str, torch.Tensor]]


def load_weights(
    model: nn.Module,
    path: Path,
    architecture: str,
    rules: KeyRules | None = None,
    adapt: Adapt | None = None,
) -> tuple[str, ...]:
    """Read a file and copy its weights into a network; return the file's entries left out.

    Every key of the network must be in the file, and none may be left over. Floating weights become
    the network's own type. Counters of batches, which old files lack and evaluation does not read,
    may be absent.

    Parameters
    ----------
    model : nn.Module
        The network, on the CPU; without its classifier where the rules say that the file has none
        (``without_classifier``). Not to be used if this raises.
    path : Path
        The file.
    architecture : str
        The network's full name, for messages.
    rules : KeyRules, optional
        How the file's keys become the network's. Of several forms the first that fits best counts.
    adapt : callable, optional
        What the library of the network does to the weights after that.

    Returns
    -------
    tuple of str
        The entries beside the weights that were left out, by the file's own names.

    Raises
    ------
    CheckpointError
        If the file cannot be read safely or does not fit the network exactly.
    """
    content = read_content(path)
    forms = (rules, *rules.alternatives) if rules else (KeyRules(),)
    keyed = _best_form(content, forms, model.state_dict())
    if adapt is not None:
        _check_claims(path, keyed.tensors, model.state_dict())
        keyed = replace(keyed, tensors=adapt(keyed.tensors))
    _fit(model, keyed, path, architecture)
    return keyed.dropped


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


@dataclass(frozen=True, slots=True)
class _Keyed:
    """A file's weights by the network's keys."""

    #: The weights by the network's keys, as far as they were understood.
    tensors: dict[str, torch.Tensor]
    #: Layout versions by the network's module paths.
    versions: dict[str, dict[str, int]]
    #: What was left out, by the file's own names.
    dropped: tuple[str, ...]
    #: All of the file's keys, for messages.
    file_keys: tuple[str, ...]

    def misfits(self, reference: Mapping[str, torch.Tensor]) -> int:
        """Return the number of keys that are missing or left over."""
        unexpected = sum(key not in reference for key in self.tensors)
        return len(_missing(reference, self.tensors)) + unexpected


def _best_form(
    content: Content, forms: Iterable[KeyRules], reference: Mapping[str, torch.Tensor]
) -> _Keyed:
    """Return the weights in the form that leaves fewest keys over; the first among equals."""
    fits, problems = [], []
    for form in forms:
        try:
            weights = content.weights(form.container)
            fits.append(_keyed(weights, form, reference, content.path))
        except CheckpointError as problem:
            problems.append(problem)
    if not fits:
        raise problems[0]
    return min(fits, key=lambda keyed: keyed.misfits(reference))


def _keyed(
    weights: Weights, rules: KeyRules, reference: Mapping[str, torch.Tensor], path: Path
) -> _Keyed:
    prefix = rules.prefix or _shared_prefix(weights.tensors, reference)
    tensors = {
        key[len(prefix) :]: tensor
        for key, tensor in weights.tensors.items()
        if key.startswith(prefix)
    }
    if not tensors:
        raise CheckpointError(
            f"{path} has no key that begins with {prefix}, where its weights were published:"
            f" its keys begin with {_beginnings(weights.tensors, reference)}",
            hint="the file is another one than the published one, or was packed anew",
        )
    outside = [key for key in weights.tensors if not key.startswith(prefix)]
    dropped = [key for key in tensors if any(fnmatchcase(key, glob) for glob in rules.drop)]
    for key in dropped:
        del tensors[key]
    # Heads may have stood beside a wrapper that the other keys share.
    inner = "" if rules.prefix else _shared_prefix(tensors, reference)
    return _Keyed(
        _renamed({key[len(inner) :]: tensor for key, tensor in tensors.items()}, reference),
        _versions(weights.versions, prefix + inner),
        (*weights.dropped_keys, *outside, *(prefix + key for key in dropped)),
        tuple(weights.tensors),
    )


def _fit(model: nn.Module, keyed: _Keyed, path: Path, architecture: str) -> None:
    """Copy weights into a network that has just these keys."""
    reference = model.state_dict()
    tensors = keyed.tensors
    # Before any is converted: a few bytes may claim to be a tensor of any size.
    shapes = [
        f"{key} is {_shape(tensors[key])}, needed {_shape(reference[key])}"
        for key in reference
        if key in tensors and tensors[key].shape != reference[key].shape
    ]
    if shapes:
        missing = _missing(reference, tensors)
        unexpected = [key for key in tensors if key not in reference]
    else:
        state = {k: _usable(path, k, tensor, reference.get(k)) for k, tensor in tensors.items()}
        missing, unexpected = _copy(model, state, keyed.versions, path)
    if missing or unexpected or shapes:
        differences = {
            f"of {len(reference)} keys missing": missing,
            "unexpected": unexpected,
            "of another shape": shapes,
        }
        raise _misfit(path, architecture, keyed, reference, differences)


def _check_claims(
    path: Path, tensors: Mapping[str, torch.Tensor], reference: Mapping[str, torch.Tensor]
) -> None:
    """Refuse tensors that are far larger than the network's before anything computes with them."""
    claimed, needed = (
        sum(tensor.numel() * tensor.element_size() for tensor in state.values())
        for state in (tensors, reference)
    )
    if claimed > _CLAIMED_AT_MOST * needed:
        raise CheckpointError(
            f"{path} holds tensors of {claimed:,} bytes, more than {_CLAIMED_AT_MOST} times the"
            f" network's {needed:,}",
            hint="the file is of another architecture, or damaged: fetch it from its publisher",
        )


def _beginnings(keys: Iterable[str], reference: Mapping[str, torch.Tensor]) -> str:
    """Return the prefixes of a file's keys before the network's names, the commonest first."""
    counted = Counter(_beginning(key, reference) for key in keys)
    return first_names(f"{before or 'nothing'} ({n})" for before, n in counted.most_common())


def _beginning(key: str, reference: Mapping[str, torch.Tensor]) -> str:
    parts = key.split(".", _PARTS)
    for start in range(len(parts)):
        if ".".join(parts[start:]) in reference:
            return "".join(f"{part}." for part in parts[:start])
    return f"{parts[0]}." if len(parts) > 1 else key


def _shared_prefix(keys: Collection[str], reference: Collection[str]) -> str:
    """Return the known prefixes that all of the file's keys share, and the network's do not."""
    shared = ""
    while keys and (prefix := _first_prefix(keys, shared, reference)):
        shared += prefix
    return shared


def _first_prefix(keys: Collection[str], shared: str, reference: Collection[str]) -> str:
    for prefix in PREFIXES:
        if all(key.startswith(shared + prefix) for key in keys):
            return "" if all(key.startswith(prefix) for key in reference) else prefix
    return ""


def _versions(saved: Mapping[str, dict[str, int]], prefix: str) -> dict[str, dict[str, int]]:
    """Return the layout versions by the network's own module paths."""
    paths = {f"{path}." if path else "": version for path, version in saved.items()}
    return {
        path[len(prefix) :].removesuffix("."): version
        for path, version in paths.items()
        if path.startswith(prefix)
    }


def _renamed(
    tensors: dict[str, torch.Tensor], reference: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Bring torchvision's DenseNet files, which keep their first release's keys, up to date."""
    renamed = {}
    for key, tensor in tensors.items():
        new = _OLD_DENSENET.sub(r"\1", key)
        renamed[new if key not in reference and new in reference else key] = tensor
    return renamed


def _usable(
    path: Path, key: str, tensor: torch.Tensor, wanted: torch.Tensor | None
) -> torch.Tensor:
    """Return a tensor as the type its place in the network wants, or refuse it."""
    plain = not tensor.is_quantized and tensor.layout == torch.strided and not tensor.is_meta
    number = tensor.dtype in _FLOATS or not (tensor.is_floating_point() or tensor.is_complex())
    kinds_agree = wanted is None or not wanted.is_floating_point() or tensor.dtype in _FLOATS
    if not (plain and number and kinds_agree):
        raise CheckpointError(
            f"{path} holds {key} as {_type(tensor)}, must be a dense tensor of"
            " float16, bfloat16, float32 or float64",
            hint="quantised and sparse weights cannot be surveyed: use the file they came from",
        )
    if wanted is None:
        return tensor
    converted = tensor.to(wanted.dtype)
    if tensor.dtype is torch.float64 and converted.isinf().sum() != tensor.isinf().sum():
        raise CheckpointError(
            f"{path} holds {key} with values beyond {_type(converted)}, which the network computes"
            " in",
            hint="the file is damaged, or its weights are for another precision",
        )
    return converted


def _type(tensor: torch.Tensor) -> str:
    parts = [str(tensor.dtype).removeprefix("torch.")]
    if tensor.layout != torch.strided:
        parts.append(str(tensor.layout).removeprefix("torch."))
    if tensor.is_meta:
        parts.append("without values")
    return " ".join(parts)


def _missing(reference: Mapping[str, torch.Tensor], state: Mapping[str, object]) -> list[str]:
    return [key for key in reference if key not in state and not key.endswith(_COUNTER)]


def _copy(
    model: nn.Module,
    state: Mapping[str, torch.Tensor],
    versions: Mapping[str, dict[str, int]],
    path: Path,
) -> tuple[list[str], list[str]]:
    """Load, and return the missing and the unexpected keys as the network itself sees them.

    Some networks rename the keys of older files while they load, going by the versions.
    """
    keyed = OrderedDict(state)
    own_versions = getattr(model.state_dict(), "_metadata", {})
    # Where torch itself looks for them; a plain attribute of its state dicts.
    keyed._metadata = {**own_versions, **versions}  # type: ignore[attr-defined]
    try:
        result = model.load_state_dict(keyed, strict=False)
    except (RuntimeError, ValueError, TypeError) as problem:
        raise CheckpointError(
            f"{path} cannot be loaded: {problem}",
            hint="the file may come from another release of the network's package",
        ) from problem
    missing = [key for key in result.missing_keys if not key.endswith(_COUNTER)]
    return missing, list(result.unexpected_keys)


def _misfit(
    path: Path,
    architecture: str,
    keyed: _Keyed,
    reference: Mapping[str, torch.Tensor],
    differences: Mapping[str, list[str]],
) -> CheckpointError:
    """Return the error that names missing and unexpected keys, and what the file would fit."""
    parts = [
        f"{len(keys)} {what} ({first_names(keys)})" for what, keys in differences.items() if keys
    ]
    beginnings = _beginnings(keyed.file_keys, reference)
    if not beginnings.startswith("nothing"):
        parts.append(f"the file's keys begin with {beginnings}")
    other = lookalike(architecture, {key: tensor.shape for key, tensor in keyed.tensors.items()})
    advice = f", {other}: name that one" if other else ": check the name, depth and classes"
    return CheckpointError(
        f"{path} does not fit {architecture}: {', '.join(parts)}",
        hint=f"the file fits a different architecture{advice}",
    )


def _shape(tensor: torch.Tensor) -> str:
    return "x".join(str(size) for size in tensor.shape) or "a single number"
