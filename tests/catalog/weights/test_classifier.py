"""Files whose classifier has another number of outputs than the published ones, or none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from catalog.checkpoint_references import resolve
from catalog.model_fit import classes_of, misfit
from catalog.model_loading import LoadedModel, load_model
from catalog.models import find
from catalog.models.base import Architecture, InputTransform
from catalog.weights.classifier import build_for, without_classifier
from survey.errors import CheckpointError

#: One of each source, ends in a convolution, in two classifiers, and without any.
NETWORKS = (
    "torchvision:resnet18",
    "torchvision:squeezenet1_1",
    "timm:test_vit",
    "timm:deit_tiny_distilled_patch16_224",
    "timm:vit_small_patch14_dinov2",
    "small:cifar_resnet8",
    "small:digits_vgg7",
)


def _loaded(name: str, path: Path) -> LoadedModel:
    (architecture,) = find(name)
    checkpoint = resolve(f"file:{path.name}", architecture, path.parent)
    loaded = load_model(architecture, checkpoint)
    assert misfit(architecture, path) is None
    assert classes_of(architecture, checkpoint) == loaded.classes
    return loaded


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_has_as_many_outputs_as_its_file(tmp_path: Path, name: str) -> None:
    (architecture,) = find(name)
    torch.manual_seed(0)
    network = build_for(architecture, 7)
    torch.save({"state_dict": network.state_dict()}, tmp_path / "seven.pth")
    loaded = _loaded(name, tmp_path / "seven.pth")
    assert loaded.classes == 7
    state = loaded.model.state_dict()
    assert all(torch.equal(state[key], value) for key, value in network.state_dict().items())
    assert state.keys() == network.state_dict().keys()


def test_a_file_without_a_classifier_gives_features(tmp_path: Path) -> None:
    for name in ("torchvision:resnet18", "timm:test_vit"):
        (architecture,) = find(name)
        network = without_classifier(architecture.build()).eval()
        torch.save({f"module.{k}": v for k, v in network.state_dict().items()}, tmp_path / "file")
        loaded = _loaded(name, tmp_path / "file")
        assert loaded.classes == 0
        images = torch.rand(2, *architecture.transform.shape)
        with torch.inference_mode():
            assert torch.equal(loaded.model(images), network(images))


def test_whatever_else_differs_is_refused(tmp_path: Path) -> None:
    (architecture,) = find("torchvision:resnet18")
    state = build_for(architecture, 7).state_dict()
    damaged = {
        "lacks": {k: v for k, v in state.items() if k != "layer1.0.bn1.weight"},
        "more": {**state, "fc2.weight": torch.zeros(2)},
        "wide": {**state, "fc.weight": torch.zeros(7, 513)},
        "two sizes": {**state, "fc.bias": torch.zeros(8)},
        "no weight": {k: v for k, v in state.items() if k != "fc.weight"},
        "none": {**state, "fc.weight": torch.zeros(0, 512), "fc.bias": torch.zeros(0)},
        # A few bytes that claim any number.
        "claimed": {
            **state,
            "fc.weight": torch.ones(()).expand(10**11, 512),
            "fc.bias": torch.ones(()).expand(10**11),
        },
    }
    for name, weights in damaged.items():
        torch.save(weights, tmp_path / name)
        why = misfit(architecture, tmp_path / name)
        assert why is not None, name
        with pytest.raises(CheckpointError):
            load_model(architecture, resolve(f"file:{name}", architecture, tmp_path))


def test_a_network_of_ones_own_has_its_own_outputs_alone(tmp_path: Path) -> None:
    def build() -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 5))

    own = Architecture("test", "own", "Test", 5, InputTransform(size=8, resize=8), build=build)
    state = build().state_dict()
    torch.save({**state, "2.weight": torch.zeros(3, 144), "2.bias": torch.zeros(3)}, tmp_path / "3")
    torch.save({k: v for k, v in state.items() if not k.startswith("2.")}, tmp_path / "0")
    for name in ("3", "0"):
        assert misfit(own, tmp_path / name) is not None
        with pytest.raises(CheckpointError):
            load_model(own, resolve(f"file:{name}", own, tmp_path))
