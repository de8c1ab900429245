"""Named sets: as many members as the paper says, and all of them published."""

from __future__ import annotations

from collections import Counter

import pytest

from catalog.models.self_supervised import SelfSupervisedSource
from catalog.models.sets import SETS
from catalog.models.torchvision import TorchvisionSource

PUBLISHED = {
    weights.full_name: weights
    for source in (TorchvisionSource(), SelfSupervisedSource())
    for weights in source.published()
}


@pytest.mark.parametrize(
    ("name", "count"), [("paper", 36), ("paper-fig15", 33), ("paper-ssl", 22), ("torchvision", 80)]
)
def test_a_set_has_its_members_once_and_all_are_published(name: str, count: int) -> None:
    named = SETS[name]
    assert named.name == name
    assert named.sentence.endswith(".")
    assert len(named.members) == len(set(named.members)) == count
    assert set(named.members) <= set(PUBLISHED)


@pytest.mark.parametrize("name", ["paper", "paper-fig15"])
def test_figures_show_first_weights_at_224_pixels_where_the_paper_could(name: str) -> None:
    tags = Counter(PUBLISHED[member].tag for member in SETS[name].members)
    assert tags == {
        "IMAGENET1K_V1": len(SETS[name].members) - 1,
        "IMAGENET1K_SWAG_LINEAR_V1": 1,
    }
    member = "torchvision:vit_h_14/IMAGENET1K_SWAG_LINEAR_V1"
    assert member in SETS[name].members
    assert PUBLISHED[member].transform.size == 224
    for each in SETS[name].members:
        label = SETS[name].label(each)
        assert PUBLISHED[each].architecture == f"torchvision:{str(label).replace(' ', '_')}"


def test_the_figures_share_what_both_show() -> None:
    first, second = set(SETS["paper"].members), set(SETS["paper-fig15"].members)
    assert len(first & second) == 26
    assert {PUBLISHED[each].architecture.partition(":")[2] for each in second - first} == {
        "maxvit_t",
        "shufflenet_v2_x0_5",
        "shufflenet_v2_x1_0",
        "shufflenet_v2_x1_5",
        "shufflenet_v2_x2_0",
        "wide_resnet101_2",
        "wide_resnet50_2",
    }


def test_the_papers_17_have_two_candidates_where_its_label_is_ambiguous() -> None:
    named = SETS["paper-ssl"]
    labels = Counter(named.label(member) for member in named.members)
    assert len(labels) == 17
    assert {label for label, count in labels.items() if count == 2} == {
        "resnet50",
        "wide resnet50 2",
        "resnet50 moco 200",
        "resnet50 sce 200",
        "resnet50 ressl 200",
    }
    assert max(labels.values()) == 2
    architectures = Counter(PUBLISHED[member].architecture for member in named.members)
    assert architectures == {"torchvision:resnet50": 20, "torchvision:wide_resnet50_2": 2}


def test_every_architecture_of_torchvision_is_in_its_set_with_its_default() -> None:
    members = SETS["torchvision"].members
    architectures = {PUBLISHED[member].architecture for member in members}
    assert architectures == {f"torchvision:{name}" for name in TorchvisionSource().names()}
    assert all(PUBLISHED[member].default for member in members)
    assert SETS["torchvision"].label(members[0]) is None


def test_what_is_not_in_a_set_has_no_label() -> None:
    with pytest.raises(KeyError):
        SETS["paper"].label("torchvision:resnet50/IMAGENET1K_V2")
