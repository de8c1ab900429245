"""Architectures: all of torchvision's, found by name or glob, built without a warning."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
import torch
from torchvision import models
from torchvision.transforms import InterpolationMode

from catalog.models import SOURCES, find
from catalog.models.base import Architecture
from catalog.models.torchvision import TorchvisionSource
from survey.errors import UnknownName

SOURCE = TorchvisionSource()


def test_there_are_eighty_networks_of_fifteen_families() -> None:
    families = Counter(SOURCE.get(name).family for name in SOURCE.names())
    assert families.total() == 80
    assert len(families) == 15
    assert families["Alexnet"] == 1
    assert families["Inception"] == 2
    assert families["ResNet"] == 10
    assert families["ViT"] == 5
    assert SOURCE.names() == sorted(SOURCE.names())


@pytest.mark.slow(seconds=6)
@pytest.mark.parametrize("name", SOURCE.names())
def test_every_network_builds_without_a_warning(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = torch.empty

    def without_memory(*size: Any, **options: Any) -> torch.Tensor:
        return plain(*size, **{**options, "device": "meta"})

    # Layers draw their weights into torch.empty; whole networks on meta fail where they compute
    # their own widths with tensors.
    monkeypatch.setattr(torch, "empty", without_memory)
    architecture = SOURCE.get(name)
    network = architecture.build()
    head = list(network.state_dict().values())[-1]
    assert head.shape[0] == architecture.classes == 1000
    assert architecture.full_name == f"torchvision:{name}"


@pytest.mark.parametrize("name", SOURCE.names())
def test_transform_is_that_of_the_first_weights(name: str) -> None:
    transform = SOURCE.get(name).transform
    preset = next(iter(models.get_model_weights(name))).transforms()
    assert [transform.size] == preset.crop_size
    assert [transform.resize] == preset.resize_size
    assert InterpolationMode(transform.interpolation) == preset.interpolation
    assert transform.mean == tuple(preset.mean)
    assert transform.std == tuple(preset.std)


@pytest.mark.parametrize("name", ["googlenet", "inception_v3"])
def test_idle_auxiliary_heads_leave_a_plain_output(name: str) -> None:
    architecture = SOURCE.get(name)
    with torch.device("meta"), torch.inference_mode():
        network = architecture.build().eval()
        side = architecture.transform.size
        output = network(torch.zeros(1, 3, side, side))
    assert any("aux" in key.lower() for key in network.state_dict())
    assert vars(network)["transform_input"]
    assert output.shape == (1, 1000)


def test_vision_transformers_take_the_size_of_their_transform() -> None:
    architecture = SOURCE.get("vit_b_32")
    with torch.device("meta"):
        assert architecture.build().image_size == architecture.transform.size


def test_find_takes_full_names_globs_and_names_alone() -> None:
    assert [each.full_name for each in find("torchvision:resnet18")] == ["torchvision:resnet18"]
    assert [each.full_name for each in find("resnet18")] == ["torchvision:resnet18"]
    names = [each.name for each in find("torchvision:resnet[135]*")]
    assert names == ["resnet101", "resnet152", "resnet18", "resnet34", "resnet50"]
    assert [each.name for each in find("*:alexnet*")] == ["alexnet"]
    assert {each.source for each in find("*resnet*")} == {"small", "torchvision", "timm"}


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("torchvision:resnet51", "torchvision:resnet50"),
        ("torchvison:resnet50", "torchvision:resnet50"),
        ("alexnett", "alexnet"),
        # Of two sources.
        ("resnt50", "resnet50"),
        # Others are spelt more alike.
        ("resnet32", "cifar_resnet32"),
    ],
)
def test_unknown_names_are_answered_with_close_ones(pattern: str, meant: str) -> None:
    with pytest.raises(UnknownName, match="unknown architecture") as caught:
        find(pattern)
    assert "did you mean" in str(caught.value.hint)
    hint = str(caught.value.hint)
    assert meant in hint
    names = hint.removeprefix("did you mean ").removesuffix("?").split(" or ")
    assert len(names) == len(set(names))


@pytest.mark.parametrize("pattern", ["torchvision:no_such_*", "", "torchvision:", ":", "nobody:*"])
def test_a_pattern_that_means_nothing_is_unknown(pattern: str) -> None:
    with pytest.raises(UnknownName):
        find(pattern)


def test_a_name_alone_asks_no_source_after_the_first_that_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Unaskable(TorchvisionSource):
        def get(self, name: str) -> Architecture:
            raise AssertionError(f"asked for {name}")

    monkeypatch.setattr("catalog.models.SOURCES", (TorchvisionSource(), Unaskable()))
    assert [each.full_name for each in find("alexnet")] == ["torchvision:alexnet"]


def test_every_listed_name_can_be_had() -> None:
    for source in SOURCES:
        for name in source.names():
            assert source.get(name).full_name == f"{source.name}:{name}"


def test_light_sources_and_tables_are_asked_without_torch() -> None:
    code = (
        "import sys\n"
        "from catalog.models import cost_table, family_facts, find, sets\n"
        "assert find('small:*')\n"
        "assert family_facts.family_of('timm', 'resnet', 'resnet50').year\n"
        "assert cost_table.counted('timm', 'resnet50')\n"
        "assert sets.SETS['paper'].members\n"
        "heavy = {'torch', 'torchvision', 'timm', 'PIL', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
