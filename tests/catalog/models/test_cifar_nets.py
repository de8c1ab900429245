"""Small networks: the published structure and keys, twins that differ by the shortcut alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from catalog.models.cifar import BUNDLED, LISTED_DEPTHS, CifarSource
from catalog.models.cifar_nets import Block
from survey import MeasureSettings, measure
from survey.errors import UnknownName
from tests.shared_data import shared

pytestmark = pytest.mark.slow(seconds=7)

SOURCE = CifarSource()


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def sites(network: nn.Module) -> list[str]:
    """Return the names of a network's activation sites, in execution order."""
    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    rows = measure(network, [images], MeasureSettings(images_per_score=4))
    return [row.site_name for row in rows]


@pytest.mark.parametrize("name", SOURCE.names())
def test_every_listed_network_builds(name: str) -> None:
    architecture = SOURCE.get(name)
    with torch.device("meta"):
        network = architecture.build().eval()
        output = network(torch.empty(2, 3, 32, 32))
    assert output.shape == (2, architecture.classes) == (2, 10)
    assert architecture.full_name == f"small:{name}"
    assert architecture.bundled == (name in BUNDLED) == name.startswith("digits_")
    assert (architecture.transform.size, architecture.transform.resize) == (32, 32)


def test_names_are_sorted_and_in_families() -> None:
    names = SOURCE.names()
    assert names == sorted(set(names))
    assert len(names) == 2 * len(LISTED_DEPTHS) + len(BUNDLED)
    assert {SOURCE.get(name).family for name in names} == {
        "CIFAR ResNet",
        "CIFAR plain",
        "Digits ResNet",
        "Digits plain",
        "Digits VGG",
    }


@pytest.mark.parametrize("blocks", [*range(1, 5), 18, 40])
@pytest.mark.parametrize("shape", ["resnet", "plain"])
def test_there_is_a_network_at_every_depth_6n_plus_2(shape: str, blocks: int) -> None:
    depth = 6 * blocks + 2
    with torch.device("meta"):
        network = SOURCE.get(f"cifar_{shape}{depth}").build()
    layers = [m for m in network.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert len(layers) == depth


@pytest.mark.parametrize(
    "name",
    [
        "cifar_resnet21", "cifar_resnet2", "cifar_resnet0", "cifar_resnet-8", "cifar_resnet",
        "cifar_resnet020", "cifar_resnet20 ", "cifar_resnet\u0662\u0660", "cifar_plain" + "2" * 30,
        "digits_resnet8", "digits_vgg", "Cifar_resnet20", "", "resnet20",
    ],
)  # fmt: skip
def test_other_names_are_unknown(name: str) -> None:
    with pytest.raises(UnknownName):
        SOURCE.get(name)


def test_a_depth_between_is_refused_with_its_neighbours() -> None:
    with pytest.raises(UnknownName) as caught:
        SOURCE.get("cifar_resnet21")
    assert "cifar_resnet20" in str(caught.value.hint)


# Table 6 of He et al. 2016.
@pytest.mark.parametrize(
    ("depth", "millions"), [(20, 0.27), (32, 0.46), (44, 0.66), (56, 0.85), (110, 1.7)]
)
def test_parameters_are_as_published(depth: int, millions: float) -> None:
    counts = {
        parameters(SOURCE.get(f"cifar_{shape}{depth}").build()) for shape in ("resnet", "plain")
    }
    assert len(counts) == 1
    assert counts.pop() / 1e6 == pytest.approx(millions, rel=0.03)


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("depth", "file"),
    [(20, "resnet20-12fca82f.th"), (32, "resnet32-d509ac18.th"), (44, "resnet44-014dd654.th")],
)
def test_keys_are_those_of_the_public_checkpoints(depth: int, file: str) -> None:
    path = shared(f"data/checkpoints/{file}")
    published = torch.load(path, map_location="cpu", weights_only=True)["state_dict"]
    ours = SOURCE.get(f"cifar_resnet{depth}").build().state_dict()
    assert {key.removeprefix("module."): value.shape for key, value in published.items()} == {
        key: value.shape for key, value in ours.items() if not key.endswith("num_batches_tracked")
    }


@pytest.mark.parametrize("shape", ["resnet", "plain"])
@pytest.mark.parametrize(("depth", "count"), [(8, 7), (20, 19), (32, 31), (44, 43)])
def test_each_relu_is_a_site_that_says_where_it_stands(shape: str, depth: int, count: int) -> None:
    names = sites(SOURCE.get(f"cifar_{shape}{depth}").build())
    assert len(names) == count
    assert names[0] == "relu#1"
    assert names[1::2] == [name.replace("relu2", "relu1") for name in names[2::2]]
    assert all(name.endswith(".relu2#1") for name in names[2::2])


@pytest.mark.parametrize(("name", "count"), [("digits_vgg7", 6), ("digits_vgg9", 8)])
def test_a_vgg_has_a_site_after_each_convolution(name: str, count: int) -> None:
    names = sites(SOURCE.get(name).build())
    assert len(names) == len(set(names)) == count


def test_a_twin_differs_by_the_addition_of_the_shortcut_alone() -> None:
    torch.manual_seed(0)
    residual, plain = (Block(4, 4, 1, residual=residual).eval() for residual in (True, False))
    plain.load_state_dict(residual.state_dict())
    seen: list[torch.Tensor] = []
    for block in (residual, plain):
        block.relu2.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    x = torch.randn(5, 4, 6, 6)
    residual(x)
    plain(x)
    torch.testing.assert_close(seen[0], seen[1] + x, rtol=0, atol=0)


def test_option_a_takes_every_second_pixel_and_pads_channels_on_both_sides() -> None:
    block = Block(4, 8, 2, residual=True).eval()
    nn.init.zeros_(block.bn2.weight)
    x = torch.rand(3, 4, 6, 6)
    out = block(x)
    assert torch.equal(out[:, 2:6], x[:, :, ::2, ::2])
    assert not out[:, :2].any()
    assert not out[:, 6:].any()


def test_a_plain_block_passes_nothing_around_its_convolutions() -> None:
    block = Block(4, 4, 1, residual=False).eval()
    nn.init.zeros_(block.bn2.weight)
    assert not block(torch.rand(3, 4, 6, 6)).any()
