"""The models of a survey that are the user's own code, apart from those that may not run yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from catalog.models.consent import lacking_consent
from catalog.models.user_code import UserCode
from jobs.planning.definition import Definition


@dataclass(frozen=True, slots=True)
class UnplannedJob:
    """A job that cannot be planned yet: a file is missing, or its model's code may not run."""

    #: The architecture's full name, the checkpoint and the dataset, as named.
    architecture: str
    checkpoint: str
    dataset: str


def code_to_consent(definition: Definition) -> list[UserCode]:
    """Return the code that a survey would run and that nobody consented to, each module's once.

    Raises
    ------
    CatalogError
        If there is no such module.
    """
    lacking = (lacking_consent(choice.name) for choice in definition.models)
    return list({code.module: code for code in lacking if code}.values())


def without_unconsented(definition: Definition) -> tuple[Definition, tuple[UnplannedJob, ...]]:
    """Return a survey without the models whose code may not run yet, and their jobs.

    Raises
    ------
    CatalogError
        If there is no such module.
    """
    kept = tuple(each for each in definition.models if not lacking_consent(each.name))
    if len(kept) == len(definition.models):
        return definition, ()
    return definition.model_copy(update={"models": kept}), tuple(_unconsented(definition))


def _unconsented(definition: Definition) -> Iterator[UnplannedJob]:
    for choice in definition.models:
        if lacking_consent(choice.name):
            for checkpoint in [each.ref for each in choice.checkpoints] or ["built"]:
                for dataset in definition.datasets:
                    yield UnplannedJob(choice.name, checkpoint, dataset.full_name)
