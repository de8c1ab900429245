"""Named sets of published weights, such as those of the affinity score's paper.

Owns the table ``sets.csv``: which weights are in which set, and the label that each has in the
paper. A set of everything that a package publishes is made from the installed package instead.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from types import MappingProxyType

#: The table beside this module.
TABLE = files("catalog.models") / "tables" / "sets.csv"

_Members = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class NamedSet:
    """Published weights that go by one name."""

    #: The name, such as ``paper``.
    name: str
    #: What is in it, in a sentence or two.
    sentence: str
    _found: Callable[[], _Members] = field(repr=False, compare=False)

    @property
    def members(self) -> tuple[str, ...]:
        """Full names of the weights, in the paper's order; the package is asked on first use."""
        return tuple(self._found())

    def label(self, member: str) -> str | None:
        """Return what the paper calls a member; None where there is no paper.

        Two members have one label where the paper leaves open which of them it means.

        Raises
        ------
        KeyError
            If the weights are not in the set.
        """
        return self._found()[member]


def _listed(name: str) -> Callable[[], _Members]:
    return lambda: _table()[name]


@functools.cache
def _table() -> Mapping[str, _Members]:
    sets: dict[str, dict[str, str | None]] = {}
    for row in csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines()):
        sets.setdefault(row["set"], {})[row["member"]] = row["label"]
    return MappingProxyType({name: MappingProxyType(rows) for name, rows in sets.items()})


@functools.cache
def _torchvision_defaults() -> _Members:
    from catalog.models.torchvision import TorchvisionSource

    weights = TorchvisionSource().published()
    return MappingProxyType({each.full_name: None for each in weights if each.default})


_ALL = (
    NamedSet(
        "paper",
        "The 36 networks of the paper's Figure 14 with torchvision's first ImageNet weights;"
        " vit_h_14, which has none of those, with SWAG's linear ones at 224 pixels.",
        _listed("paper"),
    ),
    NamedSet(
        "paper-fig15",
        "The 33 networks that the paper's Figure 15 compares across datasets, with torchvision's"
        " first ImageNet weights; vit_h_14 as in the set paper.",
        _listed("paper-fig15"),
    ),
    NamedSet(
        "paper-ssl",
        "The paper's 17 supervised and self-supervised ResNet-50s, one of them wide. Which weights"
        " five of them are its text leaves open, so both candidates of those are here: 22 members.",
        _listed("paper-ssl"),
    ),
    NamedSet(
        "torchvision",
        "Every classification network of the installed torchvision with its default weights.",
        _torchvision_defaults,
    ),
)

#: Every set by its name.
SETS: Mapping[str, NamedSet] = MappingProxyType({each.name: each for each in _ALL})
