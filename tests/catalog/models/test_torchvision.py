"""torchvision's weights, as the catalog lists them, against the installed package."""

from __future__ import annotations

import functools
import math

import pytest
import torch
from torchvision import models
from torchvision.transforms import InterpolationMode

from catalog.models.base import Published
from catalog.models.torchvision import TorchvisionSource

SOURCE = TorchvisionSource()
PUBLISHED = {weights.name: weights for weights in SOURCE.published()}


@functools.cache
def members() -> dict[str, object]:
    """Return the package's own weights by the names we give them."""
    return {
        f"{name}/{weights.name}": weights
        for name in models.list_models(module=models)
        for weights in models.get_model_weights(name)
    }


def test_all_weights_of_the_package_are_there_once() -> None:
    assert list(PUBLISHED) == sorted(members())
    assert len(PUBLISHED) == 115
    assert len({weights.file.url for weights in PUBLISHED.values() if weights.file}) == 115


def test_each_architecture_has_one_default() -> None:
    defaults = {weights.architecture for weights in PUBLISHED.values() if weights.default}
    assert defaults == {f"torchvision:{name}" for name in SOURCE.names()}
    assert sum(weights.default for weights in PUBLISHED.values()) == 80
    assert PUBLISHED["resnet50/IMAGENET1K_V2"].default
    assert PUBLISHED["resnet50/IMAGENET1K_V2"].full_name == "torchvision:resnet50/IMAGENET1K_V2"


@pytest.mark.parametrize("name", PUBLISHED)
def test_facts_are_the_packages_own(name: str) -> None:
    ours, theirs = PUBLISHED[name], members()[name]
    preset = theirs.transforms()
    assert [ours.transform.size] == preset.crop_size
    assert [ours.transform.resize] == preset.resize_size
    assert InterpolationMode(ours.transform.interpolation) == preset.interpolation
    assert (ours.transform.mean, ours.transform.std) == (tuple(preset.mean), tuple(preset.std))
    assert ours.file is not None
    assert ours.file.url == theirs.url
    assert ours.file.url.endswith(f"-{ours.file.sha256_prefix}.pth")
    assert abs(ours.file.about_bytes / 2**20 - theirs.meta["_file_size"]) < 1e-6
    assert ours.file.licence == theirs.meta.get("license")
    assert ours.recipe_url == theirs.meta["recipe"]
    assert ours.recipe is not None
    assert "`" not in ours.recipe
    assert "http" not in ours.recipe
    top1 = theirs.meta["_metrics"]["ImageNet-1K"]["acc@1"]
    if math.isnan(top1):
        assert ours.reported == ()
        return
    (reported,) = ours.reported
    assert reported.top1 == pytest.approx(top1 / 100, abs=1e-9)
    assert 0 < reported.top1 < reported.top5 < 1
    assert (reported.dataset, reported.image_size) == ("imagenet", ours.transform.size)


def test_weights_without_a_classifier_promise_no_accuracy() -> None:
    without = [weights for weights in PUBLISHED.values() if not weights.reported]
    assert [weights.name for weights in without] == ["vgg16/IMAGENET1K_FEATURES"]
    assert "NaN" in without[0].notes


def test_terms_are_stated_where_the_package_states_them() -> None:
    stated = [w.name for w in PUBLISHED.values() if w.file and w.file.licence]
    assert len(stated) == 12
    assert all("SWAG" in name for name in stated)


def built(weights: Published) -> torch.nn.Module:
    architecture = SOURCE.get(weights.architecture.partition(":")[2])
    with torch.device("meta"):
        return (weights.build or architecture.build)()


VISION_TRANSFORMERS = [name for name in PUBLISHED if name.startswith("vit_")]


@pytest.mark.parametrize("name", VISION_TRANSFORMERS)
def test_a_vision_transformer_is_built_for_the_size_of_its_weights(name: str) -> None:
    weights = PUBLISHED[name]
    network = built(weights)
    patch = int(name.partition("/")[0].rpartition("_")[2])
    positions = (weights.transform.size // patch) ** 2 + 1
    assert network.state_dict()["encoder.pos_embedding"].shape[1] == positions
    # The package counted the parameters of the network that each file is for.
    parameters = sum(parameter.numel() for parameter in network.parameters())
    assert parameters == members()[name].meta["num_params"]


def test_only_vision_transformers_depend_on_the_size_of_their_weights() -> None:
    # Elsewhere all files of an architecture hold as many parameters, whatever the image size.
    for name in PUBLISHED.keys() - set(VISION_TRANSFORMERS):
        architecture = SOURCE.get(name.partition("/")[0])
        assert members()[name].meta["num_params"] == architecture.published_parameters


def test_an_architecture_has_what_the_package_publishes_of_it() -> None:
    architecture = SOURCE.get("resnet50")
    assert architecture.module == "resnet"
    assert architecture.family == "ResNet"
    assert architecture.published_parameters == 25_557_032
    assert architecture.published_gflops == 4.089


@pytest.mark.parametrize("tag", ["IMAGENET1K_SWAG_E2E_V1", "IMAGENET1K_V1"])
def test_weights_change_what_a_network_computes_at_their_size_alone(tag: str) -> None:
    weights = PUBLISHED[f"vit_b_16/{tag}"]
    with torch.device("meta"):
        right = torch.zeros(1, 3, weights.transform.size, weights.transform.size)
        wrong = torch.zeros(1, 3, 608 - weights.transform.size, 608 - weights.transform.size)
    network = built(weights).eval()
    with torch.no_grad():
        assert network(right).shape == (1, 1000)
        with pytest.raises(AssertionError, match="Wrong image"):
            network(wrong)


def test_hash_prefixes_are_those_of_a_sha256() -> None:
    prefixes = [weights.file.sha256_prefix for weights in PUBLISHED.values() if weights.file]
    assert all(prefix and set(prefix) <= set("0123456789abcdef") for prefix in prefixes)
    assert {len(prefix) for prefix in prefixes if prefix} == {8, 10}
