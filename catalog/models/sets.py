"""Named sets of published weights, such as those of the affinity score's paper.

Owns the table ``sets.csv``: which weights are in which set, and the label that each has in the
paper. A set of everything that a package publishes is made from the installed package instead.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from catalog.models.tables import read_table


@dataclass(frozen=True, slots=True)
class NamedSet:
    """Published weights that go by one name."""

    #: The name, such as ``paper``.
    name: str
    #: What is in it, in a sentence or two.
    sentence: str

    @property
    def members(self) -> tuple[str, ...]:
        """Full names of the weights, in the paper's order; the package is asked on first use."""
        return tuple(_labels(self.name))

    def label(self, member: str) -> str | None:
        """Return what the paper calls a member; None where there is no paper.

        Two members have one label where the paper leaves open which of them it means.

        Raises
        ------
        KeyError
            If the weights are not in the set.
        """
        return _labels(self.name)[member]


@functools.cache
def _labels(name: str) -> dict[str, str | None]:
    """Return the label of each member of a set, in the set's order."""
    if name == "torchvision":
        from catalog.models.torchvision import TorchvisionSource

        weights = TorchvisionSource().published()
        return {each.full_name: None for each in weights if each.default}
    return {row["member"]: row["label"] for row in read_table("sets.csv") if row["set"] == name}


_ALL = (
    NamedSet(
        "paper",
        "The 36 networks of the paper's Figure 14 with torchvision's first ImageNet weights;"
        " vit_h_14, which has none of those, with SWAG's linear ones at 224 pixels.",
    ),
    NamedSet(
        "paper-fig15",
        "The 33 networks that the paper's Figure 15 compares across datasets, with torchvision's"
        " first ImageNet weights; vit_h_14 as in the set paper.",
    ),
    NamedSet(
        "paper-ssl",
        "The paper's 17 supervised and self-supervised ResNet-50s, one of them wide. Which weights"
        " five of them are its text leaves open, so both candidates of those are here: 22 members.",
    ),
    NamedSet(
        "torchvision",
        "Every classification network of the installed torchvision with its default weights.",
    ),
)

#: Every set by its name.
SETS: Mapping[str, NamedSet] = MappingProxyType({each.name: each for each in _ALL})
