"""Checkpoint references: which weights ``init:0``, ``file:PATH`` or ``ssl:swav_800`` means.

Loading them is the business of ``catalog.model_loading``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from catalog.checkpoint_files import FILE, files_of, parted
from catalog.files import at_home, file_sha256
from catalog.hub_checkpoints import hub_reference
from catalog.models.base import Architecture, InputTransform, Published, RemoteFile
from survey.errors import CatalogError, CheckpointError, UnknownName
from survey.text import shortened, storable

if TYPE_CHECKING:
    from torch import nn

CheckpointKind = Literal["init", "file", "bundled", "built", "published", "hub"]

#: The largest seed a run can record.
LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One set of weights for one architecture, not yet loaded."""

    #: How it is named, such as ``init:0``, ``file:resnet20.th``, ``bundled`` or ``ssl:swav_800``.
    reference: str
    #: Where the weights come from.
    kind: CheckpointKind
    #: The file of weights; None for ``init``, and for those elsewhere that are not here yet.
    path: Path | None = None
    #: Further files, where the weights are split over several.
    shards: tuple[Path, ...] = ()
    #: The part of the file that is meant, such as ``module.encoder_q``; None for the whole.
    part: str | None = None
    #: The seed of a random initialisation; None for files.
    seed: int | None = None
    #: Full name of the architecture that brings its weights (``built``); None for others.
    architecture: str | None = None
    #: What is known of published weights; None for others.
    published: Published | None = None
    #: Where each file comes from, for those from elsewhere that are here.
    remote: tuple[RemoteFile, ...] = ()

    @property
    def classifies(self) -> bool:
        """Whether the network's outputs are classes; False where its classifier is missing."""
        return self.published is None or self.published.rules.classifier

    @property
    def of_user(self) -> bool:
        """Whether its weights are files that the user named, and are here."""
        return self.kind in ("file", "hub") and self.path is not None

    @property
    def files(self) -> tuple[Path, ...]:
        """All files of its weights; none where it has none, or they are not here."""
        return () if self.path is None else (self.path, *self.shards)

    def located(self, path: Path, *shards: Path) -> Checkpoint:
        """Return it with its files, once they are here."""
        return dataclasses.replace(self, path=path, shards=shards)

    def sha256(self) -> str:
        """Return the sha256 (hex) of the file's bytes, or of the text ``init:SEED``.

        Of weights that a network brings, it is over their names, shapes and values; of several
        files, or a part of one, as ``joint_sha256`` has it.
        """
        if self.path is not None:
            return joint_sha256([file_sha256(path) for path in self.files], self.part)
        if self.architecture is not None:
            from catalog.models import find

            return state_sha256(build_seeded(find(self.architecture)[0].build, seed=0))
        if self.kind != "init":
            raise CheckpointError(f"{self.reference} is not here", hint="fetch it: survey fetch")
        return hashlib.sha256(self.reference.encode()).hexdigest()


def resolve(reference: str | None, architecture: Architecture, base_dir: Path) -> Checkpoint:
    """Return the checkpoint that a reference means for an architecture.

    Parameters
    ----------
    reference : str or None
        ``init:SEED``, ``file:PATH``, ``hf://OWNER/REPOSITORY``, ``bundled``, ``default``, or
        published weights by their full name or their tag among the architecture's; None for the
        bundled weights, else the default.
    architecture : Architecture
        What the weights are for.
    base_dir : Path
        Where a relative path starts from.

    Raises
    ------
    CatalogError
        If there is no reference, nothing bundled and nothing published.
    CheckpointError
        If the reference is not understood, its file does not exist, or it cannot be loaded.
    """
    if reference is None and architecture.brings_weights:
        reference = "built"
    if reference is None:
        reference = "bundled" if architecture.bundled else "default"
    if reference == "bundled":
        return _bundled(architecture)
    if reference == "built" and architecture.brings_weights:
        return Checkpoint("built", "built", architecture=architecture.full_name)
    if reference == "default":
        return _default(architecture)
    kind, separator, detail = reference.partition(":")
    if kind == "init" and separator:
        return _init(detail)
    if kind == "file" and detail:
        whole, part = parted(reference, base_dir)
        path = base_dir / at_home(whole.removeprefix(FILE))
        # What is there but is no file fails alone, when it is loaded.
        if not path.exists():
            raise CheckpointError(
                f"checkpoint file {base_dir / at_home(detail)} does not exist",
                hint="a relative path starts where the command was called, or beside the survey"
                " file",
            )
        first, *shards = files_of(path)
        return Checkpoint(reference, "file", path=first, shards=tuple(shards), part=part)
    if kind == "hf" and detail:
        return Checkpoint(hub_reference(reference), "hub")
    return _published(reference, architecture, base_dir)


def joint_sha256(hashes: Sequence[str], part: str | None = None) -> str:
    """Return the sha256 (hex) of files from those of each; of one whole file it is that file's."""
    if len(hashes) == 1 and part is None:
        return hashes[0]
    texts = [*hashes, f"#{part}"] if part else hashes
    return hashlib.sha256(storable("\n".join(texts)).encode()).hexdigest()


def input_transform(architecture: Architecture, checkpoint: Checkpoint) -> InputTransform:
    """Return how images are prepared for an architecture under a checkpoint."""
    if checkpoint.published is not None:
        return checkpoint.published.transform
    return architecture.transform


def _bundled(architecture: Architecture) -> Checkpoint:
    if not architecture.bundled:
        raise CheckpointError(
            f"{architecture.full_name} has no bundled weights",
            hint="choose init:SEED (random weights), file:PATH (weights of your own) or published"
            " weights",
        )
    from catalog.zoo import bundled_checkpoint

    return Checkpoint("bundled", "bundled", path=bundled_checkpoint(architecture.name))


def _default(architecture: Architecture) -> Checkpoint:
    from catalog.models.published import default_for

    weights = default_for(architecture)
    if weights is None:
        raise CatalogError(
            f"{architecture.full_name} has no bundled or published weights, so a checkpoint must"
            " be named",
            hint="choose init:SEED (random weights) or file:PATH (weights of your own)",
        )
    return _usable(weights)


def _published(reference: str, architecture: Architecture, base_dir: Path) -> Checkpoint:
    from catalog.models.published import look_up, published_for

    weights = look_up(reference)
    if weights is not None and weights.architecture == architecture.full_name:
        return _usable(weights)
    if weights is not None:
        raise CheckpointError(
            f"{reference} is for {weights.architecture}, not for {architecture.full_name}",
            hint=f"measure it with --model {reference}",
        )
    known = published_for(architecture)
    tagged = {each.tag: each for each in reversed(known)}
    if reference in tagged:
        return _usable(tagged[reference])
    hint = UnknownName("checkpoint", reference, tagged).hint if tagged else None
    raise CheckpointError(
        f"checkpoint {shortened(repr(reference))} is not understood for {architecture.full_name},"
        " must be init:SEED, file:PATH, hf://OWNER/REPOSITORY, bundled, default or the name of"
        " published weights",
        hint=f"write file:{reference}" if (base_dir / reference).is_file() else hint,
    )


def _usable(weights: Published) -> Checkpoint:
    if weights.refusal:
        raise CheckpointError(f"{weights.full_name} cannot be loaded: {weights.refusal}")
    return Checkpoint(weights.full_name, "published", published=weights)


def _init(seed: str) -> Checkpoint:
    if not (seed.isascii() and seed.isdigit() and len(seed) <= 20 and int(seed) <= LARGEST_SEED):
        raise CheckpointError(
            f"the seed of init:{seed} must be a whole number from 0 to {LARGEST_SEED}",
            hint="write init:0",
        )
    return Checkpoint(f"init:{int(seed)}", "init", seed=int(seed))


def build_seeded(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Return a network whose weights come from the seeded generator of the CPU."""
    import torch

    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        # torch.manual_seed would also seed every GPU, which fork_rng leaves out here.
        torch.default_generator.manual_seed(seed)
        return build()


def state_sha256(model: nn.Module) -> str:
    """Return a sha256 (hex) over a network's structure as it describes itself, and its weights."""
    import torch

    digest = hashlib.sha256(storable(repr(model)).encode())
    for name, tensor in model.state_dict().items():
        if not isinstance(tensor, torch.Tensor):
            # What a module keeps beside its tensors; as bytes that nobody loads.
            digest.update(name.encode() + pickle.dumps(tensor, protocol=4))
            continue
        values = tensor.detach().cpu().contiguous()
        digest.update(repr((name, tuple(values.shape), str(values.dtype))).encode())
        # As bytes: numpy has no half precision of some kinds.
        digest.update(values.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
