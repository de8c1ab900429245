"""Weights fitted to a network strictly: every key in its place, none missing, none left over.

``catalog.weights.reading`` reads the file, ``keys`` brings its keys to the network's.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from catalog.models.base import KeyRules
from catalog.weights.content import Content, joint_content
from catalog.weights.keys import (
    COUNTER,
    KeyedWeights,
    beginnings,
    best_form,
    missing_keys,
    network_prefixes,
)
from catalog.weights.lookalikes import lookalike
from catalog.weights.reading import read_content
from survey.errors import CheckpointError
from survey.text import first_names

_FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
#: How many times a network's bytes the tensors of its file may have, heads of other precision
#: included; a few bytes of a file may claim any.
_CLAIMED_AT_MOST = 16

#: Renames weights, or changes their form.
Adapt = Callable[[Mapping[str, torch.Tensor]], dict[str, torch.Tensor]]


def load_weights(
    model: nn.Module,
    files: Path | Sequence[Path],
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
    files : Path or sequence of Path
        The file, or the files that the weights are split over.
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
    content = joint_content([files] if isinstance(files, Path) else files, read_content)
    path = content.path
    forms = (rules, *rules.alternatives) if rules else (KeyRules(),)
    keyed = best_form(content, forms, model.state_dict())
    if adapt is not None:
        _check_claims(path, keyed.tensors, model.state_dict())
        keyed = replace(keyed, tensors=adapt(keyed.tensors))
    if how := _differences(model, keyed, path, _usable):
        raise _misfit(path, architecture, keyed, how, model.state_dict())
    return keyed.dropped


def differences(model: nn.Module, content: Content, rules: KeyRules | None = None) -> str | None:
    """Return how a file's keys or shapes differ from a network's; None where they do not.

    Parameters
    ----------
    model : nn.Module
        The network, without values (on the device ``meta``); it stays as it is.
    content : Content
        The file, or its header alone.
    rules : KeyRules, optional
        How the file's keys become the network's.

    Raises
    ------
    CheckpointError
        If the file holds no named tensors.
    """
    reference = model.state_dict()
    keyed = best_form(content, (rules or KeyRules(),), reference)
    if not keyed.misfits(reference) and all(
        _has_shape(tensor, reference[key]) for key, tensor in keyed.tensors.items()
    ):
        return None
    # A copy: some networks change while they load an older file.
    return _differences(copy.deepcopy(model), keyed, content.path, _without_values)


def _differences(
    model: nn.Module, keyed: KeyedWeights, path: Path, converted: Callable[..., torch.Tensor]
) -> str | None:
    """Copy weights into a network, or return how their keys or shapes differ from its."""
    reference = model.state_dict()
    tensors = keyed.tensors
    # Before any is converted: a few bytes may claim to be a tensor of any size.
    shapes = [
        f"{key} is {_shape(tensors[key])}, needed {_shape(reference[key])}"
        for key in reference
        if key in tensors and not _has_shape(tensors[key], reference[key])
    ]
    if shapes:
        missing = missing_keys(reference, tensors)
        unexpected = [key for key in tensors if key not in reference]
    else:
        state = {k: converted(path, k, tensor, reference.get(k)) for k, tensor in tensors.items()}
        missing, unexpected = _copy(model, state, keyed.versions, path)
    kinds = {
        f"of {len(reference)} keys missing": missing,
        "unexpected": unexpected,
        "of another shape": shapes,
    }
    parts = [f"{len(keys)} {what} ({first_names(keys)})" for what, keys in kinds.items() if keys]
    begin = beginnings(keyed.file_keys, reference)
    if parts and not begin.startswith("nothing"):
        parts.append(f"the file's keys begin with {begin}")
    if parts and len(networks := network_prefixes(keyed.file_keys, reference)) > 1:
        name = next(filter(None, networks)).removesuffix(".")
        parts.append(f"it holds {len(networks)} networks: file:PATH#{name} names one")
    return ", ".join(parts) or None


def _has_shape(tensor: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Return whether a tensor has the shape of its place in the network, as torch takes it."""
    if is_lazy(wanted):
        # Any shape, but a few bytes may claim to be a tensor of any size.
        return tensor.is_meta or tensor.untyped_storage().nbytes() >= tensor.nbytes
    # Single numbers once were stored with one axis.
    return tensor.shape == wanted.shape or (wanted.ndim == 0 and tensor.shape == (1,))


def _without_values(
    _: Path, __: str, tensor: torch.Tensor, wanted: torch.Tensor | None
) -> torch.Tensor:
    """Return a tensor of the same shape, of the type that its place in the network wants."""
    return torch.empty(
        tensor.shape, dtype=wanted.dtype if wanted is not None else None, device="meta"
    )


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
    if wanted is None or tensor.dtype is wanted.dtype:
        return tensor
    converted = tensor.to(wanted.dtype)
    if not (key.endswith(COUNTER) or _keeps_values(tensor, converted)):
        raise CheckpointError(
            f"{path} holds {key} with values that {_type(converted)} cannot hold, in which the"
            " network has them",
            hint="the file is damaged, or its weights are for another precision",
        )
    return converted


def _keeps_values(tensor: torch.Tensor, converted: torch.Tensor) -> bool:
    """Return whether a conversion makes nothing infinite, and of whole numbers no others."""
    if converted.is_floating_point() or converted.is_complex():
        widest = torch.finfo(converted.dtype).max
        if not tensor.is_floating_point() or torch.finfo(tensor.dtype).max <= widest:
            return True
        return bool(converted.isinf().sum() == tensor.isinf().sum())
    # Beyond these a type of floating numbers does not hold every whole one.
    if tensor.is_floating_point() and (tensor.abs() > 2 / torch.finfo(tensor.dtype).eps).any():
        return False
    return bool((converted.to(tensor.dtype) == tensor).all())


def _type(tensor: torch.Tensor) -> str:
    parts = [str(tensor.dtype).removeprefix("torch.")]
    if tensor.layout != torch.strided:
        parts.append(str(tensor.layout).removeprefix("torch."))
    if tensor.is_meta:
        parts.append("without values")
    return " ".join(parts)


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
    missing = [key for key in result.missing_keys if not key.endswith(COUNTER)]
    return missing, list(result.unexpected_keys)


def _misfit(
    path: Path,
    architecture: str,
    keyed: KeyedWeights,
    how: str,
    reference: Mapping[str, torch.Tensor],
) -> CheckpointError:
    """Return the error that says how weights differ, and what the file would fit."""
    other = lookalike(architecture, {key: tensor.shape for key, tensor in keyed.tensors.items()})
    if other:
        hint = f"the file fits a different architecture, {other}: name that one"
    elif len(network_prefixes(keyed.file_keys, reference)) > 1:
        hint = "name one of the file's networks, or check the name, depth and classes"
    else:
        hint = (
            "the file may be incomplete, or of a different architecture: check the name, depth and"
            " classes"
        )
    return CheckpointError(f"{path} does not fit {architecture}: {how}", hint=hint)


def _shape(tensor: torch.Tensor) -> str:
    if is_lazy(tensor):
        return "whole"
    return "x".join(str(size) for size in tensor.shape) or "a single number"
