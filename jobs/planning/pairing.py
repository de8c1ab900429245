"""Files of weights that cannot be loaded into their networks, named before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from catalog.checkpoint_references import Checkpoint
from catalog.models.selection import is_glob
from jobs.planning.definition import Definition
from jobs.planning.holdings import Holdings
from jobs.planning.targets import Target
from survey.text import counted, first_lines, first_names


@dataclass(frozen=True, slots=True)
class Misfit:
    """A network and a file of weights that cannot be loaded into it."""

    #: The architecture's full name.
    architecture: str
    checkpoint: Checkpoint
    #: How keys or shapes differ.
    why: str
    #: Whether the pair is left out: names were multiplied, and the file fits another network.
    passed_over: bool

    @property
    def pair(self) -> tuple[str, Checkpoint]:
        """The architecture's full name and the checkpoint."""
        return self.architecture, self.checkpoint


def misfits(
    targets: Sequence[Target],
    definition: Definition,
    holdings: Holdings,
    hashed: Mapping[Checkpoint, str],
) -> tuple[Misfit, ...]:
    """Return the pairs of a survey that cannot be loaded.

    Parameters
    ----------
    targets : sequence of Target
        Those whose files are at hand.
    definition : Definition
        The survey.
    holdings : Holdings
        Knows which files fit, or reads their headers.
    hashed : mapping of Checkpoint to str
        The sha256 of each target's weights.
    """
    reasons = [
        holdings.misfit(target.architecture, target.checkpoint, hashed[target.checkpoint])
        for target in targets
    ]
    products = [(_product(target, definition), target.checkpoint) for target in targets]
    fitting = {product for product, why in zip(products, reasons, strict=True) if why is None}
    return tuple(
        Misfit(target.architecture.full_name, target.checkpoint, why, product in fitting)
        for target, product, why in zip(targets, products, reasons, strict=True)
        if why is not None
    )


def notes(pairs: Sequence[Misfit]) -> list[str]:
    """Return which pairs cannot be loaded and why, and which are left out, in lines."""
    failing = [each for each in pairs if not each.passed_over]
    lines = first_lines(
        [
            f"{each.checkpoint.reference} cannot be loaded into {each.architecture}: {each.why}"
            for each in failing
        ],
        "more pairs cannot be loaded",
    )
    if left_out := [
        f"{each.architecture} with {each.checkpoint.reference}"
        for each in pairs
        if each.passed_over
    ]:
        count = counted(len(left_out), "pair")
        lines.append(
            f"{count} left out, whose file fits another of the models: {first_names(left_out)}"
        )
    return lines


def copies_lines(copies: Mapping[str, str]) -> list[str]:
    """Return which checkpoints have the bytes of another, in lines."""
    lines = [
        f"{copy} has the bytes of {first}: one run, with the labels and tags of both"
        for copy, first in copies.items()
    ]
    return first_lines(lines, "more checkpoints have the bytes of another")


def _product(target: Target, definition: Definition) -> str:
    """Return which product of names a pair is of; its own where the survey names just that pair."""
    choice = target.choice
    if definition.crossed:
        return "every model x every checkpoint"
    if choice.args:
        return choice.name.partition("?")[0]
    return choice.name if is_glob(choice.name) else target.architecture.full_name
