"""Checkpoints: what a reference such as ``init:0`` or ``file:PATH`` means, and the model it gives.

Owns references and the loading of a network. What a file of weights may hold is the business of
``catalog.weights``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from catalog.files import at_home, file_sha256
from catalog.models.base import Architecture, InputTransform
from survey.errors import CatalogError, CheckpointError

if TYPE_CHECKING:
    from torch import nn

CheckpointKind = Literal["init", "file", "bundled"]

#: The largest seed a run can record.
LARGEST_SEED = 2**63 - 1

_CHOICES = "init:SEED (random weights) or file:PATH (weights of your own)"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One set of weights for one architecture, not yet loaded."""

    #: How it is named, such as ``init:0``, ``file:resnet20.th`` or ``bundled``.
    reference: str
    #: Where the weights come from.
    kind: CheckpointKind
    #: The file of weights; None for ``init``.
    path: Path | None = None
    #: The seed of a random initialisation; None for files.
    seed: int | None = None

    def sha256(self) -> str:
        """Return the sha256 (hex) of the file's bytes, or of the text ``init:SEED``."""
        if self.path is not None:
            return file_sha256(self.path)
        return hashlib.sha256(self.reference.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A network with its weights in it."""

    #: On the CPU, in float32 and in eval mode.
    model: nn.Module = field(repr=False)
    #: Entries of the file that are not tensors and were left out.
    dropped_keys: tuple[str, ...]
    #: Counters of batches that the file lacks; evaluation does not read them.
    absent_keys: tuple[str, ...]
    #: sha256 (hex) of the file's bytes, or of the text ``init:SEED``.
    sha256: str


def resolve(reference: str | None, architecture: Architecture, base_dir: Path) -> Checkpoint:
    """Return the checkpoint that a reference means for an architecture.

    Parameters
    ----------
    reference : str or None
        ``init:SEED``, ``file:PATH`` or ``bundled``; None for the bundled weights, where there
        are some.
    architecture : Architecture
        What the weights are for.
    base_dir : Path
        Where a relative path starts from.

    Raises
    ------
    CatalogError
        If there is no reference and nothing bundled.
    CheckpointError
        If the reference is not understood or its file does not exist.
    """
    if reference is None and not architecture.bundled:
        raise CatalogError(
            f"{architecture.full_name} has no bundled weights, so a checkpoint must be named",
            hint=f"choose {_CHOICES}",
        )
    kind, separator, detail = (reference or "bundled").partition(":")
    if kind == "bundled" and not separator:
        return _bundled(architecture)
    if kind == "init" and separator:
        return _init(detail)
    if kind == "file" and detail:
        return _file(f"file:{detail}", base_dir / at_home(detail))
    raise CheckpointError(
        f"checkpoint {reference!r} is not understood, must be init:SEED, file:PATH or bundled",
        hint=f"write file:{reference}" if (base_dir / str(reference)).is_file() else None,
    )


def input_transform(architecture: Architecture, checkpoint: Checkpoint) -> InputTransform:
    """Return how images are prepared for an architecture under a checkpoint."""
    if checkpoint.kind == "bundled" and architecture.bundled_transform is not None:
        return architecture.bundled_transform
    return architecture.transform


def load_model(architecture: Architecture, checkpoint: Checkpoint) -> LoadedModel:
    """Build a network and put its weights in, leaving torch's random state as it was.

    Raises
    ------
    CheckpointError
        If the file cannot be read safely or does not fit the architecture exactly.
    """
    sha256 = checkpoint.sha256()
    if checkpoint.path is None:
        model = _built(architecture, checkpoint.seed or 0)
        return LoadedModel(model.eval(), dropped_keys=(), absent_keys=(), sha256=sha256)
    from catalog.fitting import fit
    from catalog.weights import read_weights

    weights = read_weights(checkpoint.path)
    model = _built(architecture, seed=0)
    absent = fit(model, weights, checkpoint.path, architecture.full_name)
    return LoadedModel(model.eval(), weights.dropped_keys, absent, sha256)


def _bundled(architecture: Architecture) -> Checkpoint:
    if not architecture.bundled:
        raise CheckpointError(
            f"{architecture.full_name} has no bundled weights", hint=f"choose {_CHOICES}"
        )
    from catalog.zoo import bundled_checkpoint

    return Checkpoint("bundled", "bundled", path=bundled_checkpoint(architecture.name))


def _init(seed: str) -> Checkpoint:
    if not (seed.isascii() and seed.isdigit() and len(seed) <= 20 and int(seed) <= LARGEST_SEED):
        raise CheckpointError(
            f"the seed of init:{seed} must be a whole number from 0 to {LARGEST_SEED}",
            hint="write init:0",
        )
    return Checkpoint(f"init:{int(seed)}", "init", seed=int(seed))


def _file(reference: str, path: Path) -> Checkpoint:
    if not path.is_file():
        happened = "is not a file" if path.exists() else "does not exist"
        raise CheckpointError(
            f"checkpoint file {path} {happened}",
            hint="a relative path starts where the command was called, or beside the survey file",
        )
    return Checkpoint(reference, "file", path=path)


def _built(architecture: Architecture, seed: int) -> nn.Module:
    with _seeded(seed):
        return architecture.build()


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed the CPU's generator for a while; weights are drawn there on every machine."""
    import torch

    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        # torch.manual_seed would also seed every GPU, which fork_rng leaves out here.
        torch.default_generator.manual_seed(seed)
        yield
