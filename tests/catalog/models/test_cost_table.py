"""The table of counted costs: counted anew, and held against what the packages publish."""

from __future__ import annotations

import pytest
import timm
import torch
import torchvision
from torchvision import models

from catalog.models.cifar import CifarSource
from catalog.models.cost_table import counted
from catalog.models.counting import model_cost, weighted_depth
from catalog.models.tables import read_table
from catalog.models.torchvision import TorchvisionSource
from survey import __version__

SOURCES = {source.name: source for source in (TorchvisionSource(), CifarSource())}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("torchvision", "mnasnet0_5"),
        ("torchvision", "vit_b_32"),
        ("timm", "resnet18"),
        ("timm", "test_vit3"),
        ("small", "cifar_resnet20"),
        ("small", "digits_vgg7"),
    ],
)
def test_a_network_counted_anew_costs_what_the_table_says(source: str, name: str) -> None:
    with torch.device("meta"):
        ours = SOURCES.get(source)
        network = (ours.get(name).build() if ours else timm.create_model(name)).eval()
        known = counted(source, name)
        assert known is not None
        image = torch.zeros(1, 3, known.size, known.size)
    cost = model_cost(network, (3, known.size, known.size))
    assert cost.parameters == known.parameters
    assert cost.gflops == pytest.approx(known.gflops, abs=1e-6)
    assert weighted_depth(network, image) == known.depth


@pytest.mark.parametrize("name", SOURCES["torchvision"].names())
def test_counts_are_those_that_torchvision_publishes(name: str) -> None:
    architecture, known = SOURCES["torchvision"].get(name), counted("torchvision", name)
    assert known is not None
    assert known.size == architecture.transform.size
    # To three decimals, as published.
    assert known.gflops == pytest.approx(architecture.published_gflops, rel=0.002, abs=0.0006)
    # Published without the two auxiliary heads, which are idle but in the file.
    idle = googlenets_idle_heads() if name == "googlenet" else 0
    assert known.parameters - idle == architecture.published_parameters


@pytest.mark.parametrize(
    ("name", "depth"),
    [
        *(("alexnet", 8), ("googlenet", 22), ("inception_v3", 48), ("wide_resnet50_2", 50)),
        *((f"vgg{depth}", depth) for depth in (11, 13, 16, 19)),
        *((f"vgg{depth}_bn", depth) for depth in (11, 13, 16, 19)),
        *((f"resnet{depth}", depth) for depth in (18, 34, 50, 101, 152)),
        *((f"densenet{depth}", depth) for depth in (121, 161, 169, 201)),
    ],
)
def test_depths_are_the_numbers_in_names_and_papers(name: str, depth: int) -> None:
    for source in ("torchvision", "timm"):
        known = counted(source, name)
        assert known is None or known.depth == depth


def googlenets_idle_heads() -> int:
    with torch.device("meta"):
        network = models.googlenet(init_weights=False)
    heads = (network.aux1, network.aux2)
    return sum(parameter.numel() for head in heads for parameter in head.parameters())


def test_every_network_for_square_images_is_counted_once() -> None:
    rows = [(row["source"], row["name"]) for row in read_table("costs.csv")]
    assert rows == sorted(set(rows))
    expected = {(source.name, name) for source in SOURCES.values() for name in source.names()}
    expected |= {("timm", name) for name in timm.list_models() if not name.endswith("_sapiens2")}
    assert set(rows) == expected


def test_a_network_that_passes_its_parameters_to_modules_can_be_counted() -> None:
    network = timm.create_model("test_vit3").eval()
    known = counted("timm", "test_vit3")
    assert known is not None
    assert model_cost(network, (3, known.size, known.size)).parameters == known.parameters
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_networks_were_built_with_the_installed_versions() -> None:
    libraries = {(row["source"], row["library"]) for row in read_table("costs.csv")}
    # Where this fails after an upgrade, `python bench/costs.py` counts anew.
    assert libraries == {
        ("small", f"survey {__version__}"),
        ("timm", f"timm {timm.__version__}"),
        ("torchvision", f"torchvision {torchvision.__version__.partition('+')[0]}"),
    }


def test_what_was_not_counted_is_not_known() -> None:
    assert counted("torchvision", "resnet51") is None
    assert counted("small", "resnet50") is None
