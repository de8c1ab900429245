"""The targets of a survey: each architecture it names with each set of weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from catalog.checkpoint_files import expanded
from catalog.checkpoint_references import Checkpoint, input_transform, resolve
from catalog.models.base import Architecture, InputTransform, RemoteFile
from catalog.models.selection import is_glob, select
from jobs.planning.definition import Definition, ModelChoice
from survey import CatalogError

#: References that not every architecture has; a glob skips architectures without them.
OPTIONAL = (None, "bundled", "default")


@dataclass(frozen=True, slots=True)
class Target:
    """One architecture with one set of weights, as a survey declares them."""

    architecture: Architecture
    checkpoint: Checkpoint
    transform: InputTransform
    choice: ModelChoice

    @property
    def file(self) -> RemoteFile | None:
        """The file it needs from elsewhere, if any."""
        return self.checkpoint.published.file if self.checkpoint.published else None


def targets(definition: Definition) -> list[Target]:
    """Return every architecture of a survey with each of its checkpoints; touches no network.

    Raises
    ------
    UnknownName, CatalogError
        If a model or checkpoint is unknown or unusable.
    """
    return [target for choice in definition.models for target in _targets(choice, definition)]


def _targets(choice: ModelChoice, definition: Definition) -> Iterator[Target]:
    """Yield each architecture of a choice with each of its checkpoints."""
    selected = select(choice.name)
    any_weights = False
    named = [one for each in choice.checkpoints for one in expanded(each, definition.base)]
    for each in selected:
        for reference in named or (each.weights,):
            try:
                checkpoint = resolve(reference, each.architecture, definition.base)
            except CatalogError:
                if is_glob(choice.name) and reference in OPTIONAL:
                    continue
                raise
            any_weights = True
            transform = input_transform(each.architecture, checkpoint)
            mean, std = choice.mean or transform.mean, choice.std or transform.std
            transform = dataclasses.replace(transform, mean=mean, std=std)
            yield Target(each.architecture, checkpoint, transform, choice)
    if not any_weights:
        raise CatalogError(
            f"none of the {len(selected)} models of {choice.name!r} has bundled or published"
            " weights",
            hint="name a checkpoint: init:SEED or file:PATH",
        )
