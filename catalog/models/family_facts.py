"""Which family a network belongs to, and when that family, or its variant, was published.

Owns the table ``tables/families.csv``: a row for each module of a source, and rows above it for
names in the module that belong elsewhere or were published apart. Years are those of the paper in
``reference``: on arXiv its first version, else the conference. Both are empty where no paper
introduced the structure, or which one is not certain.

Groups are those that the affinity score's paper sorts its networks into: pre-residual (pure
convolutional: Alexnet, VGG, Inception), residual (ResNet, DenseNet), NAS-based (EfficientNet,
MNASNet), ViT, and post-ViT (Swin, ConvNeXt). Other families are put into a group only where its
definition covers them: variants of a ResNet's block; structures found by a search; plain vision
transformers of one resolution; and hierarchical transformers and convolutional networks designed
after them. The rest have no group.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from catalog.models.tables import read_table

#: Groups of families, in the order of their history.
GROUPS = ("pre-residual", "residual", "NAS-based", "ViT", "post-ViT")


@dataclass(frozen=True, slots=True)
class FamilyFacts:
    """Where a network belongs."""

    #: The family, such as ``ResNet``; the module's name where the table lacks it.
    family: str
    #: One of ``GROUPS``; None where none fits.
    group: str | None = None
    #: Year in which the structure was published; None where that is not certain.
    year: int | None = None
    #: The paper that introduced it, such as ``arXiv:1512.03385``; None where there is none.
    reference: str | None = None


def family_of(source: str, module: str, name: str) -> FamilyFacts:
    """Return what is known of a network's family.

    Parameters
    ----------
    source : str
        The source of models, such as ``timm``.
    module : str
        The module of the source that defines the network, such as ``vision_transformer``.
    name : str
        The network's name within the source, such as ``vit_base_patch16_224``.

    Returns
    -------
    FamilyFacts
        For a module that the table lacks, the module's name as the family and nothing else.
    """
    for pattern, facts in _table().get((source, module), ()):
        if fnmatchcase(name, pattern):
            return facts
    return FamilyFacts(module)


@functools.cache
def _table() -> Mapping[tuple[str, str], list[tuple[str, FamilyFacts]]]:
    """Return globs over names and what holds for them, by source and module; the first fits."""
    rows = defaultdict(list)
    for row in read_table("families.csv"):
        facts = FamilyFacts(
            family=row["family"],
            group=row["group"] or None,
            year=int(row["year"]) if row["year"] else None,
            reference=row["reference"] or None,
        )
        rows[row["source"], row["module"]].append((row["name"] or "*", facts))
    return rows
