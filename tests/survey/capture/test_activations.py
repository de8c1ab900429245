"""Every spelling of every activation is one site; architectures have their counted sites."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
import torchvision
from timm.layers import activations_me
from timm.models import metaformer
from torch import nn
from torch.nn import functional

from survey.capture.activations import (
    ACTIVATION_FUNCTIONS,
    activation_called,
    activation_of,
    site_name,
)
from survey.capture.forward import Capture
from survey.capture.pooled_pair import PooledPair
from tests.shared_data import shared

#: Activation calls that depend on the images, how many of them are gates, and activations on the
#: longest path, counted by hand from the published structures.
COUNTS = {
    "googlenet": (57, 0, 21),
    "inception_v3": (94, 0, 47),
    "resnet50": (49, 0, 49),
    "vit_b_16": (12, 0, 12),
    "swin_v2_t": (12, 0, 12),
    "convnext_tiny": (18, 0, 18),
    "densenet121": (121, 0, 121),
    "efficientnet_b0": (65, 2 * 16, 65),
    "mobilenet_v3_small": (42, 2 * 9, 42),
}
TABLES = {"torchvision": "torchvision_activations.csv", "timm": "timm_activations.csv"}


@pytest.fixture
def no_initialisation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let networks that cannot be built on the meta device be built without drawing weights."""
    for name in ("normal_", "kaiming_normal_", "kaiming_uniform_", "trunc_normal_", "uniform_"):
        monkeypatch.setattr(nn.init, name, lambda tensor, *_args, **_settings: tensor)


def _build(library: str, name: str) -> nn.Module:
    if library == "timm":
        return timm.create_model(name, pretrained=False)
    kwargs = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    return torchvision.models.get_model(name, weights=None, **kwargs)


def _shapes_only(library: str, name: str) -> nn.Module:
    """Build a network without storage."""
    try:
        with torch.device("meta"):
            return _build(library, name).eval()
    except NotImplementedError:
        return _build(library, name).eval().to("meta")


def _rows(library: str) -> Iterator[tuple[str, int, int]]:
    with Path(shared(f"facts/{TABLES[library]}")).open(newline="") as file:
        for row in csv.DictReader(file):
            count = int(row["n_pointwise_calls"]) - int(row["calls_input_independent"])
            yield row["model"], int(row["input_size"]), count


def _watched(library: str, name: str, size: int) -> list[PooledPair]:
    images = torch.empty(2, 3, size, size, device="meta")
    with torch.inference_mode():
        return Capture(_shapes_only(library, name)).forward(images)[1]


def _found(library: str, name: str, size: int) -> tuple[int, list[str]]:
    """Return how many sites there are, and the reasons of those that cannot be pooled."""
    pairs = _watched(library, name, size)
    assert len({pair.site.site_name for pair in pairs}) == len(pairs)
    return len(pairs), [pair.reason for pair in pairs if pair.reason]


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.usefixtures("no_initialisation")
def test_well_known_networks_have_their_sites(name: str) -> None:
    pairs = _watched("torchvision", name, 299 if name == "inception_v3" else 224)
    gates = sum(pair.site.role == "gate" for pair in pairs)
    depth = max(pair.site.graph_depth for pair in pairs)
    assert (len(pairs), gates, depth) == COUNTS[name]
    assert not [pair.reason for pair in pairs if pair.reason]


@pytest.mark.slow(seconds=25)
@pytest.mark.long
@pytest.mark.parametrize("library", TABLES)
@pytest.mark.usefixtures("no_initialisation")
def test_every_known_architecture_has_its_sites_and_all_can_be_pooled(library: str) -> None:
    expected = {name: (count, []) for name, _, count in _rows(library)}
    assert {name: _found(library, name, size) for name, size, _ in _rows(library)} == expected


#: Where activations can be called from.
OWNERS: dict[str, Any] = {
    "functional": functional,
    "torch": torch,
    "Tensor": torch.Tensor,
    "kernel": torch._C._nn,
}


def _spellings() -> list[tuple[str, str]]:
    return [
        (owner, spelling)
        for owner, module in OWNERS.items()
        for name in sorted(set(ACTIVATION_FUNCTIONS.values()))
        for spelling in (name, name + "_")
        if hasattr(module, spelling)
    ]


#: What some functions need besides the tensor.
_ARGUMENTS: dict[str, tuple[object, ...]] = {"threshold": (0.0, 0.0), "prelu": (torch.ones(1),)}


#: All of torch.nn's but those that are not pointwise.
TORCH_CLASSES = [
    getattr(nn, name)
    for name in nn.modules.activation.__all__
    if name not in ("Softmax", "Softmax2d", "Softmin", "LogSoftmax", "MultiheadAttention")
]


class One(nn.Module):
    """Calls one function of the images."""

    def __init__(self, owner: str, spelling: str, *arguments: object) -> None:
        super().__init__()
        self.owner, self.spelling, self.arguments = owner, spelling, arguments

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return getattr(OWNERS[self.owner], self.spelling)(images.clone(), *self.arguments)


def test_every_spelling_is_one_site(subtests: pytest.Subtests) -> None:
    for owner, spelling in _spellings():
        with subtests.test(owner=owner, spelling=spelling):
            name = spelling.removesuffix("_")
            net = One(owner, spelling, *_ARGUMENTS.get(name, ())).eval()
            images = torch.rand(4, 6)
            with torch.inference_mode():
                _, pairs = Capture(net).forward(images)
            assert [(pair.site.site_name, pair.site.activation) for pair in pairs] == [
                (f":{name}#1", name)
            ]
            assert pairs[0].x is not None
            # What a gated linear unit activates is its second half.
            expected = images[:, 3:] if name == "glu" else images
            assert torch.equal(pairs[0].x.float(), expected)


def test_every_activation_module_is_one_site(subtests: pytest.Subtests) -> None:
    for kind in TORCH_CLASSES:
        with subtests.test(kind=kind):
            module = kind(0.0, 0.0) if kind is nn.Threshold else kind()
            with torch.inference_mode():
                _, pairs = Capture(nn.Sequential(module).eval()).forward(torch.rand(4, 6))
            # One name for one function: that of torch.nn.functional, however it is called.
            name = kind.__name__.lower()
            name = name if hasattr(nn.functional, name) else "leaky_relu"
            assert [(pair.site.site_name, pair.site.activation) for pair in pairs] == [
                ("0#1", name)
            ]


def _timms_own() -> list[type[nn.Module]]:
    homes = (timm.layers.activations, activations_me)
    result = [
        kind
        for home in homes
        for kind in vars(home).values()
        if isinstance(kind, type) and issubclass(kind, nn.Module)
    ]
    return [*result, metaformer.SquaredReLU, metaformer.StarReLU]


def test_timms_own_activations_are_one_site(subtests: pytest.Subtests) -> None:
    for kind in _timms_own():
        with subtests.test(kind=kind):
            with torch.inference_mode():
                _, pairs = Capture(nn.Sequential(kind()).eval()).forward(torch.rand(4, 6))
            assert [pair.site.site_name for pair in pairs] == ["0#1"]


def test_a_users_own_activation_counts_once() -> None:
    class Mine(nn.ReLU):
        def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
            return functional.relu(input) * functional.sigmoid(input)

    with torch.inference_mode():
        _, pairs = Capture(nn.Sequential(Mine()).eval()).forward(torch.randn(4, 6))
    assert [(pair.site.site_name, pair.site.activation) for pair in pairs] == [("0#1", "relu")]


def test_kernels_called_by_their_own_name_are_seen() -> None:
    assert activation_called(torch.ops.aten.gelu_.default) == "gelu"
    assert activation_called(torch.ops.aten.add.Tensor) is None
    assert activation_called(torch.softmax) is None
    assert activation_called(torch.clamp) is None


def test_names() -> None:
    assert site_name("layer1.0.relu", None, 2) == "layer1.0.relu#2"
    assert site_name("Mixed_5b.branch1x1", "relu", 1) == "Mixed_5b.branch1x1:relu#1"
    assert activation_of(nn.ReLU6()) == "relu6"
    assert activation_of(nn.Conv2d(1, 1, 1)) is None
