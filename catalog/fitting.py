"""Weights fitted to a network strictly: every key in its place, none missing, none left over.

Owns how a file's keys become a network's keys. What a file may hold is the business of
``catalog.weights``.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from catalog.weights import Weights, first_names
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
_COUNTER = "num_batches_tracked"
_OLD_DENSENET = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.(?=[12]\.)")


def fit(model: nn.Module, weights: Weights, path: Path, architecture: str) -> tuple[str, ...]:
    """Copy weights into a network; every key must be there, and none may be left over.

    Floating weights become the network's own type. Counters of batches, which old files lack and
    evaluation does not read, may be absent.

    Parameters
    ----------
    model : nn.Module
        The network, on the CPU. Not to be used if this raises.
    weights : Weights
        What the file holds.
    path : Path
        The file, for messages.
    architecture : str
        The network's full name, for messages.

    Returns
    -------
    tuple of str
        The network's keys that the file lacks: counters of batches only.

    Raises
    ------
    CheckpointError
        If keys are missing or left over, or a tensor has another shape or an unusable type.
    """
    reference = model.state_dict()
    tensors, prefix = _without_prefixes(weights.tensors, reference)
    tensors = _renamed(tensors, reference)
    state = {key: _usable(path, key, tensor, reference.get(key)) for key, tensor in tensors.items()}
    shapes = [
        f"{key} is {_shape(state[key])}, needed {_shape(reference[key])}"
        for key in reference
        if key in state and state[key].shape != reference[key].shape
    ]
    if shapes:
        missing, unexpected = _missing(reference, state), [k for k in state if k not in reference]
    else:
        missing, unexpected = _copy(model, state, _versions(weights.versions, prefix), path)
    if missing or unexpected or shapes:
        raise _misfit(path, architecture, len(reference), missing, unexpected, shapes)
    return tuple(key for key in reference if key not in state and key.endswith(_COUNTER))


def _without_prefixes(
    tensors: dict[str, torch.Tensor], reference: Mapping[str, torch.Tensor]
) -> tuple[dict[str, torch.Tensor], str]:
    """Strip the known prefixes that all of the file's keys share, and the network's do not."""
    stripped = ""
    while prefix := _shared_prefix(tensors, reference):
        tensors = {key[len(prefix) :]: tensor for key, tensor in tensors.items()}
        stripped += prefix
    return tensors, stripped


def _shared_prefix(
    tensors: Mapping[str, torch.Tensor], reference: Mapping[str, torch.Tensor]
) -> str | None:
    for prefix in PREFIXES:
        if all(key.startswith(prefix) for key in tensors):
            own = all(key.startswith(prefix) for key in reference)
            return None if own else prefix
    return None


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
    return tensor if wanted is None else tensor.to(wanted.dtype)


def _type(tensor: torch.Tensor) -> str:
    words = [str(tensor.dtype).removeprefix("torch.")]
    if tensor.layout != torch.strided:
        words.append(str(tensor.layout).removeprefix("torch."))
    if tensor.is_meta:
        words.append("without values")
    return " ".join(words)


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
    keys: int,
    missing: list[str],
    unexpected: list[str],
    shapes: list[str],
) -> CheckpointError:
    parts = [
        f"{len(found)} {what} ({first_names(found)})"
        for what, found in (
            (f"of {keys} keys missing", missing),
            ("unexpected", unexpected),
            ("of another shape", shapes),
        )
        if found
    ]
    return CheckpointError(
        f"{path} does not fit {architecture}: {', '.join(parts)}",
        hint="the file fits a different architecture: check the name, depth and number of classes",
    )


def _shape(tensor: torch.Tensor) -> str:
    return "x".join(str(size) for size in tensor.shape) or "a single number"
