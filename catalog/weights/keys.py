"""A file's weights by a network's keys: wrappers' prefixes stripped, old names renewed.

Owns how a file's keys become a network's keys. ``catalog.weights.strict_loading`` copies the
weights.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import torch

from catalog.models.base import KeyRules
from catalog.weights.content import Content, Weights
from survey.errors import CheckpointError
from survey.text import first_names

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

#: Wrappers around a network, one in another.
_WRAPPERS_AT_MOST = 8

#: How the counters of batch normalisation are called: old files lack them, nothing reads them.
COUNTER = "num_batches_tracked"
#: Dots of a key that are looked at for a message; one of a file may have any number.
_PARTS = 64
_OLD_DENSENET = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.(?=[12]\.)")


@dataclass(frozen=True, slots=True)
class KeyedWeights:
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
        return len(missing_keys(reference, self.tensors)) + unexpected


def best_form(
    content: Content, forms: Iterable[KeyRules], reference: Mapping[str, torch.Tensor]
) -> KeyedWeights:
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
) -> KeyedWeights:
    prefix = rules.prefix or _shared_prefix(weights.tensors, reference)
    tensors = {
        key[len(prefix) :]: tensor
        for key, tensor in weights.tensors.items()
        if key.startswith(prefix)
    }
    if not tensors:
        raise CheckpointError(
            f"{path} has no key that begins with {prefix}, where its weights should be:"
            f" its keys begin with {beginnings(weights.tensors, reference)}",
            hint="the file is another one than was meant, or was packed anew",
        )
    outside = [key for key in weights.tensors if not key.startswith(prefix)]
    dropped = [key for key in tensors if any(fnmatchcase(key, glob) for glob in rules.drop)]
    for key in dropped:
        del tensors[key]
    there, here = rules.moved
    tensors = {
        here + key[len(there) :] if there and key.startswith(there) else key: tensor
        for key, tensor in tensors.items()
    }
    # Heads may have stood beside a wrapper that the other keys share.
    inner = "" if rules.prefix else _shared_prefix(tensors, reference)
    return KeyedWeights(
        _renamed({key[len(inner) :]: tensor for key, tensor in tensors.items()}, reference),
        _versions(weights.versions, prefix + inner),
        (*weights.dropped_keys, *outside, *(prefix + key for key in dropped)),
        tuple(weights.tensors),
    )


def beginnings(keys: Iterable[str], reference: Mapping[str, torch.Tensor]) -> str:
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
    """Return of the known prefixes that all of a file's keys share as many as fit the network."""
    chains = [""]
    while keys and len(chains) <= _WRAPPERS_AT_MOST:
        longer = (chains[-1] + prefix for prefix in PREFIXES)
        shared = (each for each in longer if all(key.startswith(each) for key in keys))
        if (chain := next(shared, None)) is None:
            break
        chains.append(chain)
    # The network's own keys may begin with some; it may rename what follows while it loads.
    firsts = {key.partition(".")[0] for key in reference}

    def fit(chain: str) -> tuple[int, int]:
        rest = [key[len(chain) :] for key in keys]
        return (
            sum(key in reference for key in rest),
            sum(key.partition(".")[0] in firsts for key in rest),
        )

    # Where nothing fits, all of them.
    return max(reversed(chains), key=fit)


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


def network_prefixes(keys: Iterable[str], reference: Mapping[str, torch.Tensor]) -> list[str]:
    """Return the prefixes below which a file has most of a network's keys, in the file's order."""
    counts = Counter(_beginning(key, reference) for key in keys)
    return [prefix for prefix, count in counts.items() if 2 * count > len(reference)]


def missing_keys(reference: Mapping[str, torch.Tensor], state: Mapping[str, object]) -> list[str]:
    """Return the network's keys that are not in a file, counters of batches aside."""
    return [key for key in reference if key not in state and not key.endswith(COUNTER)]
