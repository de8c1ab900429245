"""Models of the user's own: a function by name, and sources that packages bring."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch

from catalog import models
from catalog.checkpoint_references import resolve
from catalog.model_loading import load_model
from catalog.models import find
from catalog.models.base import InputTransform
from catalog.models.consent import trust
from catalog.models.cost_table import cost_of
from catalog.models.selection import select
from survey import MeasureSettings, extensions, measure
from survey.errors import CatalogError, UnknownName
from survey.extensions import GROUPS

SOURCE = """
from pathlib import Path

import torch
from torch import nn

def net():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))

def plain():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())

plain.survey = {"size": 8, "mean": [0.5, 0.5, 0.5], "classes": 4, "family": "Mine"}

def number():
    return 3

def typed(name: str):
    return plain().to(getattr(torch, name))

def mixed():
    net = plain()
    net.scale = nn.Parameter(torch.ones((), dtype=torch.float64))
    return net

def failing():
    raise RuntimeError("no weights here")

def needy(width: int, scale: "float" = 1.0, *, note: str = "a"):
    net = nn.Sequential(nn.Conv2d(3, width, 3), nn.ReLU())
    nn.init.constant_(net[0].bias, scale)
    return net

def described(attribute):
    def net():
        return plain()
    net.survey = attribute
    return net

half_sized = described({"size": 2})
typo = described({"sizes": 8})
no_number = described({"mean": [0.5, "a", 0.5]})
no_order = described({"mean": {0.4, 0.5, 0.6}})
infinite = described({"mean": [0.5, 0.5, float("inf")]})
no_deviation = described({"std": [0.5, 0, 0.5]})
minus = described({"classes": -1})
ten = described({"classes": "ten"})
half = described({"size": 8.5})
nameless = described({"family": " "})
narrow = described({"size": 32, "resize": 16})
no_dict = described([32])
one_mean = described({"mean": [0.5]})
two_channels = described({"mean": [0.5] * 2, "std": [0.5] * 2})

def grey():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU())

grey.survey = {"size": 8, "mean": [0.1], "std": [0.3]}
whole = described({"mean": [0, 0.5, 1], "size": 8, "resize": 10, "crop": "squash"})
CONSTANT = 4
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_nets.py").write_text(SOURCE)
    (tmp_path / "broken_nets.py").write_text("import nothing_of_this_name\n")
    (tmp_path / "script.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("own_nets", "broken_nets", "script"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        trust(f"python:{name}:net")
    return "own_nets"


def test_a_function_gives_network_and_weights() -> None:
    (chosen,) = select("python:own_nets:plain")
    architecture = chosen.architecture
    assert architecture.full_name == "python:own_nets:plain"
    assert (architecture.classes, architecture.family) == (4, "Mine")
    assert architecture.transform == InputTransform(size=8, resize=8, mean=(0.5, 0.5, 0.5))
    checkpoint = resolve(None, architecture, Path())
    first, second = (load_model(architecture, checkpoint) for _ in range(2))
    assert first.sha256 == second.sha256 == checkpoint.sha256()
    assert not first.model.training
    assert torch.equal(first.model[0].weight, second.model[0].weight)  # type: ignore[index]


def test_types_beside_float32_stay() -> None:
    """The hash of the weights, and with it the ids of runs, holds them."""
    (architecture,) = find("python:own_nets:mixed")
    model = load_model(architecture, resolve(None, architecture, Path())).model
    assert {each.dtype for each in model.parameters()} == {torch.float32, torch.float64}


@pytest.mark.parametrize("name", ["float64", "bfloat16", "float16"])
def test_a_network_of_another_type_is_measured_in_float32(name: str) -> None:
    (architecture,) = find(f"python:own_nets:typed?name={name}")
    model = load_model(architecture, resolve(None, architecture, Path())).model
    assert {each.dtype for each in model.parameters()} == {torch.float32}
    weight = model[0].weight  # type: ignore[index]
    assert name == "float64" or torch.equal(weight, weight.to(getattr(torch, name)).float())
    (row,) = measure(model, [torch.randn(40, 3, 8, 8)], MeasureSettings(images_per_score=40))
    assert row.affinity is not None


def test_its_identity_is_its_structure_and_weights(tmp_path: Path) -> None:
    (architecture,) = find("python:own_nets:plain")
    before = resolve(None, architecture, Path()).sha256()
    for change in ("nn.ReLU()", "nn.GELU()"), ("Conv2d(3, 4, 3)", "Conv2d(3, 4, 3, bias=False)"):
        (tmp_path / "own_nets.py").write_text(SOURCE.replace(*change))
        del sys.modules["own_nets"]
        trust("python:own_nets:plain")
        assert resolve(None, architecture, Path()).sha256() != before


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("nothing_here:net", "nothing_here"),
        ("broken_nets:net", "nothing_of_this_name"),
        ("script:net", "SystemExit: 0"),
        ("own_nets:absent", "absent"),
        ("own_nets:CONSTANT", "CONSTANT"),
        ("own_nets:typo", "sizes = 8"),
        ("own_nets:no_number", r"mean\.1 = 'a'"),
        ("own_nets:no_order", "mean = {0"),
        ("own_nets:infinite", r"mean\.2 = inf"),
        ("own_nets:no_deviation", r"std\.1 = 0"),
        ("own_nets:minus", "classes = -1"),
        ("own_nets:ten", "classes = 'ten'"),
        ("own_nets:half", r"size = 8\.5"),
        ("own_nets:nameless", "family = ' '"),
        ("own_nets:narrow", "'resize': 16"),
        ("own_nets:one_mean", "'mean'"),
        ("own_nets:two_channels", "'mean'"),
        ("own_nets:no_dict", r"\[32\]"),
        ("own_nets:needy", "'width'"),
        ("own_nets:needy?widht=3", "'widht'"),
        ("own_nets:needy?width=wide", "width as int"),
        ("own_nets:needy?width=true", "width as int"),
        ("own_nets:needy?width=3&width=4", "twice"),
        ("own_nets:needy?width", "NAME=VALUE"),
        ("own_nets:plain?width=3", "'width'"),
    ],
)
def test_what_cannot_be_used_is_named(name: str, named: str) -> None:
    with pytest.raises(CatalogError, match=named) as caught:
        find(f"python:{name}")
    assert caught.value.hint


def test_numbers_of_a_transform_stay_as_they_are_written() -> None:
    # The id of a run is made from how they are written: 1 and 1.0 are two transforms.
    (architecture,) = find("python:own_nets:whole")
    transform = architecture.transform
    assert str(transform.mean) == "(0, 0.5, 1)"
    assert (transform.size, transform.resize, transform.crop) == (8, 10, "squash")
    assert (architecture.family, architecture.classes) == ("own", 0)


@pytest.mark.parametrize("name", ["own_nets", "own_nets:", "a b:c", "os:system;x", "../x:y"])
def test_names_have_one_form(name: str) -> None:
    with pytest.raises(UnknownName):
        find(f"python:{name}")


def test_a_name_of_another_form_is_answered_with_the_form() -> None:
    with pytest.raises(UnknownName, match="python:MODULE:FUNCTION"):
        select("python:own_nets")


@pytest.mark.parametrize(
    ("name", "named", "hint"),
    [
        ("failing", "RuntimeError: no weights here", "own_nets.py:"),
        ("number", "returned a int", ""),
    ],
)
def test_a_function_that_cannot_give_a_network_is_named(name: str, named: str, hint: str) -> None:
    (architecture,) = find(f"python:own_nets:{name}")
    with pytest.raises(CatalogError, match=f"own_nets:{name} .*{named}") as caught:
        load_model(architecture, resolve(None, architecture, Path()))
    assert hint in str(caught.value.hint)


def test_arguments_reach_the_function_and_enter_the_identity() -> None:
    (first,), (again,) = (
        find(f"python:own_nets:needy?{arguments}")
        for arguments in ("width=5&scale=2&note=%2264%22", "note=%2264%22&width=05&scale=+2")
    )
    assert (
        first.full_name == again.full_name == "python:own_nets:needy?note=%2264%22&scale=2&width=5"
    )
    loaded = load_model(first, resolve(None, first, Path()))
    assert loaded.model[0].bias.tolist() == [2.0] * 5  # type: ignore[index, union-attr]
    (other,) = find("python:own_nets:needy?width=5&scale=2.5")
    assert resolve(None, other, Path()).sha256() != loaded.sha256


@pytest.mark.parametrize("name", ["torch:load?f=weights.pt", "own_nets:Path?args=weights.pt"])
def test_arguments_reach_no_function_that_the_user_did_not_write(name: str) -> None:
    with pytest.raises(CatalogError, match="takes no arguments"):
        find(f"python:{name}")


def test_a_network_is_counted_at_its_own_size_and_says_where_it_fails() -> None:
    (plain,), (net,) = find("python:own_nets:plain"), find("python:own_nets:half_sized")
    assert (cost_of(plain).size, cost_of(plain).parameters, cost_of(plain).depth) == (8, 112, 1)
    with pytest.raises(CatalogError, match="3 x 2 x 2: RuntimeError"):
        cost_of(net)
    (grey,) = find("python:own_nets:grey")
    assert (grey.transform.shape, cost_of(grey).parameters) == ((1, 8, 8), 40)


class Brought:
    """A source as a package might bring it."""

    name = "brought"

    def names(self) -> list[str]:
        return ["resnet18"]

    def get(self, name: str) -> models.Architecture:
        if name != "resnet18":
            raise UnknownName("brought architecture", name, self.names())
        (resnet,) = find("torchvision:resnet18")
        return resnet

    def published(self) -> tuple[()]:
        return ()


class Lacking:
    """No source."""

    name = "lacking"


class Unlisted(Brought):
    """A source that cannot list its models."""

    name = "unlisted"

    def names(self) -> list[str]:
        raise OSError("no network")


@pytest.fixture
def announce(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Announce sources by their values; what is cached of them is forgotten afterwards."""

    def announced(*values: str) -> None:
        entries = [EntryPoint("mine", value, GROUPS["model source"]) for value in values]
        monkeypatch.setattr(extensions, "announced", lambda kind: tuple(entries))
        models.installed_sources.cache_clear()

    yield announced
    models.installed_sources.cache_clear()


def test_packages_bring_sources(announce: Callable[..., None]) -> None:
    announce(f"{__name__}:Brought")
    assert find("brought:resnet18") == find("torchvision:resnet18")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (f"{__name__}:Lacking", "lacks names"),
        ("no_such_package:Source", "ModuleNotFoundError"),
        ("catalog.models.timm:TimmSource", "another source has the name"),
        (f"{__name__}:Unlisted", "no network"),
    ],
)
def test_a_source_that_cannot_be_used_stops_no_other(
    announce: Callable[..., None], value: str, reason: str
) -> None:
    announce(value, f"{__name__}:Brought")
    assert find("brought:resnet18") == find("torchvision:resnet18")
    (broken,) = models.installed_sources().broken
    assert reason in broken.reason
    with pytest.raises(UnknownName) as caught:
        find("theirs:net")
    assert value in str(caught.value.hint)
    assert reason in str(caught.value.hint)
