"""What names stand for: architectures, published weights, globs over either, sets and aliases."""

from __future__ import annotations

import pytest

from catalog.models import find
from catalog.models.published import default_for, look_up, published, published_for
from catalog.models.selection import select
from catalog.models.sets import SETS
from survey.errors import UnknownName


def names(pattern: str) -> list[tuple[str, str | None]]:
    return [(each.architecture.full_name, each.weights) for each in select(pattern)]


def test_an_architecture_leaves_its_weights_open() -> None:
    assert names("torchvision:resnet18") == [("torchvision:resnet18", None)]
    assert names("resnet18") == [("torchvision:resnet18", None)]


@pytest.mark.parametrize(
    ("name", "architecture", "weights"),
    [
        (
            "torchvision:resnet50/IMAGENET1K_V1",
            "torchvision:resnet50",
            "torchvision:resnet50/IMAGENET1K_V1",
        ),
        ("ssl:swav_800", "torchvision:resnet50", "ssl:swav_800"),
        ("timm:resnet50.a1_in1k", "timm:resnet50", "timm:resnet50.a1_in1k"),
        ("ssl:tv_resnet50_v2", "torchvision:resnet50", "torchvision:resnet50/IMAGENET1K_V2"),
        ("ssl:timm_resnet50.a1_in1k", "timm:resnet50", "timm:resnet50.a1_in1k"),
    ],
)
def test_published_weights_name_their_architecture(
    name: str, architecture: str, weights: str
) -> None:
    assert names(name) == [(architecture, weights)]


def test_globs_are_over_architectures_and_where_none_fits_over_weights() -> None:
    assert all(weights is None for _, weights in names("torchvision:resnet*"))
    swav = names("ssl:swav_*")
    assert {architecture for architecture, _ in swav} == {"torchvision:resnet50"}
    assert ("torchvision:resnet50", "ssl:swav_800") in swav
    assert names("timm:resnet50.a[12]_in1k") == [
        ("timm:resnet50", "timm:resnet50.a1_in1k"),
        ("timm:resnet50", "timm:resnet50.a2_in1k"),
    ]


@pytest.mark.parametrize("name", SETS)
def test_every_member_of_every_set_exists(name: str) -> None:
    assert [weights for _, weights in names(name)] == list(SETS[name].members)


def test_one_architecture_has_one_implementation() -> None:
    (resnet,) = find("torchvision:resnet50")
    sources = {weights.source for weights in published_for(resnet)}
    assert sources == {"torchvision", "ssl"}
    default = default_for(resnet)
    assert default is not None
    assert default.full_name == "torchvision:resnet50/IMAGENET1K_V2"


def test_unknown_names_suggest_near_ones() -> None:
    with pytest.raises(UnknownName) as caught:
        select("torchvision:resnet5O")
    assert "torchvision:resnet50" in (caught.value.hint or "")
    with pytest.raises(UnknownName) as caught:
        published("ssl:swav_80")
    assert "ssl:swav_800" in (caught.value.hint or "")
    assert look_up("ssl:nothing") is None
    with pytest.raises(UnknownName):
        select("ssl:nothing*")
