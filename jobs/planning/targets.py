"""The targets of a survey: each architecture it names with each set of weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from catalog.checkpoint_files import expanded
from catalog.checkpoint_references import Checkpoint, input_transform, resolve
from catalog.datasets import needed_files
from catalog.hub_checkpoints import Find, HubFiles, hub_files
from catalog.models.base import Architecture, InputTransform
from catalog.models.selection import is_glob, select
from catalog.tags import RunLabels
from jobs.planning.definition import Definition
from jobs.planning.survey_tables import CheckpointChoice, ModelChoice, require_one
from jobs.planning.user_models import without_unconsented
from survey import CatalogError, SettingsError

#: References that not every architecture has; a glob skips architectures without them.
OPTIONAL = (None, "bundled", "default")


@dataclass(frozen=True, slots=True)
class Target:
    """One architecture with one set of weights, as a survey declares them."""

    architecture: Architecture
    checkpoint: Checkpoint
    transform: InputTransform
    choice: ModelChoice
    #: The labels and tags of its runs, but for the dataset's.
    labels: RunLabels

    def files(self, find: Find) -> HubFiles:
        """Return the files it needs from elsewhere, as far as they are known."""
        if self.checkpoint.kind == "hub":
            return hub_files(self.checkpoint.reference, find)
        file = self.checkpoint.published.file if self.checkpoint.published else None
        return HubFiles((file,) if file else (), complete=True)


def targets(definition: Definition) -> list[Target]:
    """Return every architecture of a survey with each of its checkpoints; touches no network.

    Raises
    ------
    UnknownName, CatalogError
        If a model or checkpoint is unknown or unusable.
    SettingsError
        If several would have one label.
    """
    return [target for choice in definition.models for target in _targets(choice, definition)]


def require_names(definition: Definition) -> None:
    """Refuse a survey that names what nobody has, before anything heavy is imported.

    Raises
    ------
    UnknownName, CatalogError
        If a model, checkpoint or dataset is unknown or unusable.
    """
    # Models whose code may not run yet are asked nothing.
    known, _ = without_unconsented(definition)
    targets(known)
    for choice in definition.datasets:
        needed_files(choice.full_name)


def _targets(choice: ModelChoice, definition: Definition) -> Iterator[Target]:
    """Yield each architecture of a choice with each of its checkpoints."""
    selected = select(choice.name)
    require_one(choice.label, choice.name, "model", len(selected))
    any_weights = False
    named: list[CheckpointChoice | None] = [
        one for each in choice.checkpoints for one in _files(each, definition.base)
    ]
    for each in selected:
        for weights in named or [None]:
            reference = weights.ref if weights else each.weights
            try:
                checkpoint = resolve(reference, each.architecture, definition.base)
            except CatalogError:
                if is_glob(choice.name) and reference in OPTIONAL:
                    continue
                raise
            any_weights = True
            transform = input_transform(each.architecture, checkpoint)
            mean, std = choice.mean or transform.mean, choice.std or transform.std
            if not len(mean) == len(std) == len(transform.mean):
                raise SettingsError(
                    f"{choice.name!r} has {len(mean)} means and {len(std)} deviations, must have"
                    f" {len(transform.mean)} of each, as many as the network has channels"
                )
            transform = dataclasses.replace(transform, mean=mean, std=std)
            labels = _labels(definition, choice, weights)
            yield Target(each.architecture, checkpoint, transform, choice, labels)
    if not any_weights:
        raise CatalogError(
            f"none of the {len(selected)} models of {choice.name!r} has bundled or published"
            " weights",
            hint="name a checkpoint: init:SEED or file:PATH",
        )


def _files(choice: CheckpointChoice, base: Path) -> list[CheckpointChoice]:
    """Return a choice of weights for each file that its glob fits, or itself without a glob."""
    references = expanded(choice.ref, base)
    require_one(choice.label, choice.ref, "file", len(references))
    return [choice.model_copy(update={"ref": reference}) for reference in references]


def _labels(
    definition: Definition, choice: ModelChoice, weights: CheckpointChoice | None
) -> RunLabels:
    """Return what is declared of a model's runs: what is said of the weights wins."""
    tags = {**definition.tags, **choice.tags, **(weights.tags if weights else {})}
    return RunLabels(choice.label, weights.label if weights else None, tags=tags)
