"""Families: every module of the installed packages has one, and the paper's are the paper's."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase

import pytest
import timm
from timm.models._registry import _model_to_module

from catalog.models.cifar import CifarSource
from catalog.models.family_facts import GROUPS, FamilyFacts, family_of
from catalog.models.sets import SETS
from catalog.models.tables import read_table
from catalog.models.torchvision import TorchvisionSource

ROWS = list(read_table("families.csv"))


def networks() -> list[tuple[str, str, str]]:
    """Return source, module and name of every network of the installed packages."""
    ours = [
        (source.name, str(source.get(name).module), name)
        for source in (CifarSource(), TorchvisionSource())
        for name in source.names()
    ]
    return [
        *ours,
        *(("timm", _model_to_module[name], name) for name in timm.list_models()),
    ]


def test_every_module_has_a_row_of_its_own_and_every_row_a_module() -> None:
    modules = {(source, module) for source, module, _ in networks()}
    fallbacks = [(row["source"], row["module"]) for row in ROWS if not row["name"]]
    assert sorted(fallbacks) == sorted(modules)


def test_every_glob_means_something_and_stands_before_its_modules_row() -> None:
    names = networks()
    seen: set[tuple[str, str]] = set()
    keys = [(row["source"], row["module"], row["name"]) for row in ROWS]
    assert len(set(keys)) == len(keys)
    for source, module, pattern in keys:
        assert (source, module) not in seen, f"{pattern} of {module} comes too late"
        if not pattern:
            seen.add((source, module))
            continue
        earlier = [
            p
            for s, m, p in keys[: keys.index((source, module, pattern))]
            if (s, m) == (source, module)
        ]
        meant = [
            name
            for s, m, name in names
            if (s, m) == (source, module)
            and fnmatchcase(name, pattern)
            and not any(fnmatchcase(name, other) for other in earlier)
        ]
        assert meant, f"{pattern} of {module} means nothing"


def test_a_year_is_that_of_its_reference() -> None:
    for row in ROWS:
        assert bool(row["year"]) == bool(row["reference"])
        if row["reference"].startswith("arXiv:"):
            assert row["year"] == f"20{row['reference'][6:8]}"
            assert len(row["reference"]) in {15, 16}
        assert row["group"] in {"", *GROUPS}


def test_families_and_groups_of_the_paper_are_its_own() -> None:
    source = TorchvisionSource()
    families: dict[str, Counter[str]] = {}
    for member in SETS["paper"].members:
        name = member.partition(":")[2].partition("/")[0]
        facts = family_of("torchvision", str(source.get(name).module), name)
        assert source.get(name).family == facts.family
        families.setdefault(str(facts.group), Counter())[facts.family] += 1
    assert families == {
        "pre-residual": {"Alexnet": 1, "VGG": 4, "Inception": 2},
        "residual": {"ResNet": 5, "DenseNet": 4},
        "NAS-based": {"MNASNet": 4, "EfficientNet": 4},
        "ViT": {"ViT": 5},
        "post-ViT": {"Swin": 3, "ConvNeXt": 4},
    }


@pytest.mark.parametrize(
    ("module", "name", "family", "group", "reference"),
    [
        ("resnet", "resnet50", "ResNet", "residual", "arXiv:1512.03385"),
        ("resnet", "resnext50d_32x4d", "ResNet", "residual", "arXiv:1611.05431"),
        ("resnet", "seresnext50_32x4d", "ResNet", "residual", "arXiv:1709.01507"),
        ("resnet", "test_resnet", "ResNet", None, None),
        ("efficientnet", "mnasnet_100", "MNASNet", "NAS-based", "arXiv:1807.11626"),
        ("efficientnet", "mobilenetv2_100", "MobileNet", None, "arXiv:1801.04381"),
        ("efficientnet", "tf_efficientnet_b0", "EfficientNet", "NAS-based", "arXiv:1905.11946"),
        ("maxxvit", "coatnet_0_224", "CoAtNet", "post-ViT", "arXiv:2106.04803"),
    ],
)
def test_names_that_differ_from_their_module_have_facts_of_their_own(
    module: str, name: str, family: str, group: str | None, reference: str | None
) -> None:
    year = int(f"20{reference[6:8]}") if reference else None
    assert family_of("timm", module, name) == FamilyFacts(family, group, year, reference)


def test_an_unknown_module_is_its_own_family() -> None:
    assert family_of("timm", "brand_new", "brand_new_tiny") == FamilyFacts("brand_new")
    assert family_of("elsewhere", "resnet", "resnet50") == FamilyFacts("resnet")
