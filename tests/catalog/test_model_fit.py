"""Whether a file fits a network, by its header: the same verdict as loading it."""

from __future__ import annotations

import functools
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file, save_model
from torch import nn

from catalog.checkpoint_references import resolve
from catalog.model_fit import definition_version, misfit
from catalog.model_loading import load_model
from catalog.models import find
from catalog.models.base import Architecture, InputTransform
from catalog.open_home import open_home
from catalog.registry.registry import Registry
from catalog.weights.reading import read_content, read_header
from catalog.weights.strict_loading import differences, load_weights
from survey.errors import CheckpointError
from tests.shared_data import shared


def _network(width: int) -> nn.Module:
    layers = OrderedDict(conv=nn.Conv2d(3, width, 3), norm=nn.BatchNorm2d(width))
    return nn.Sequential(layers)


def _architecture(width: int) -> Architecture:
    transform, build = InputTransform(size=8, resize=8), functools.partial(_network, width)
    return Architecture("test", f"of_{width}", "Test", 5, transform, build=build)


def _write(path: Path, state: dict[str, torch.Tensor], kind: str) -> None:
    if kind == "safetensors":
        save_file(state, path)
    else:
        saved = {"state_dict": state, "epoch": 3}
        torch.save(saved, path, _use_new_zipfile_serialization=kind == "zip")


@pytest.mark.parametrize("kind", ["zip", "legacy", "safetensors"])
@pytest.mark.parametrize("prefix", ["", "module."])
def test_the_verdict_is_that_of_loading(tmp_path: Path, kind: str, prefix: str) -> None:
    state = {prefix + key: value for key, value in _network(4).state_dict().items()}
    short = {key: value for key, value in state.items() if not key.endswith("norm.bias")}
    old = {key: value for key, value in state.items() if not key.endswith("tracked")}
    more = {**state, prefix + "head.weight": torch.zeros(1)}
    verdicts = []
    for number, saved in enumerate((state, old, short, more)):
        _write(tmp_path / f"{number}", saved, kind)
        for width in (4, 5):
            architecture = _architecture(width)
            why = misfit(architecture, tmp_path / f"{number}")
            verdicts.append(why is None)
            if why is None:
                load_model(architecture, resolve(f"file:{number}", architecture, tmp_path))
            else:
                with pytest.raises(CheckpointError) as caught:
                    load_model(architecture, resolve(f"file:{number}", architecture, tmp_path))
                assert why in caught.value.message
    assert verdicts == [True, False, True, False, False, False, False, False]


def test_tied_weights_that_safetensors_saved_once_are_loaded_under_all_their_names(
    tmp_path: Path,
) -> None:
    def tied() -> nn.Module:
        first = nn.Linear(4, 4)
        return nn.Sequential(OrderedDict(a=first, relu=nn.ReLU(), b=first, end=nn.Linear(4, 2)))

    network = tied()
    path = tmp_path / "tied.safetensors"
    save_model(network, str(path))
    with safe_open(path, framework="pt") as file:
        assert len(file.keys()) == 4 < len(network.state_dict())
    for read in (read_content, read_header):
        assert differences(tied().to("meta"), read(path)) is None
    other = tied()
    load_weights(other, path, "test:tied")
    # What the file has stays, whatever its metadata call tied.
    save_file({"weight": torch.ones(2, 2), "bias": torch.zeros(2)}, path, {"bias": "weight"})
    assert read_content(path).weights().tensors["bias"].shape == (2,)
    assert all(torch.equal(v, other.state_dict()[k]) for k, v in network.state_dict().items())


def test_a_header_needs_none_of_the_values(tmp_path: Path) -> None:
    path = tmp_path / "large.pth"
    torch.save({"weight": torch.zeros(1000, 1000)}, path)
    content = bytearray(path.read_bytes())
    # Damage within the values, which reading the whole file would notice.
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert read_header(path).weights().tensors["weight"].shape == (1000, 1000)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError):
        read_header(path)


def test_networks_that_cannot_be_built_without_values_are_built_with_them(tmp_path: Path) -> None:
    def build() -> nn.Module:
        assert float(torch.linspace(0, 1, 3)[2]) == 1.0
        return _network(4)

    transform = InputTransform(size=8, resize=8)
    computing = Architecture("test", "computing", "Test", 5, transform, build=build)
    lazy = Architecture(
        "test", "lazy", "Test", 5, transform, build=lambda: nn.Sequential(nn.LazyLinear(3))
    )
    torch.save(_network(5).state_dict(), tmp_path / "5")
    assert "of another shape" in (misfit(computing, tmp_path / "5") or "")
    # Its shapes show in its first forward pass alone.
    torch.save({"0.weight": torch.ones(3, 2), "0.bias": torch.ones(3)}, tmp_path / "lazy")
    assert misfit(lazy, tmp_path / "lazy") is None


def test_a_verdict_is_kept_until_the_network_is_another(tmp_path: Path) -> None:
    version = definition_version(find("small:cifar_resnet8")[0])
    assert version
    assert definition_version(_architecture(4)) is None
    verdicts = iter(["keys missing", None, "again"])
    with Registry(open_home(tmp_path / "home", create=True)) as registry:
        kept = [
            registry.hashes.misfit(*asked, lambda: next(verdicts))
            for asked in (("a", version), ("a", version), ("b", version), ("b", version))
        ]
        assert kept == ["keys missing", "keys missing", None, None]
        assert registry.hashes.misfit("a", f"{version}.1", lambda: next(verdicts)) == "again"


def test_real_files_fit_their_own_depth() -> None:
    files = {20: "resnet20-12fca82f.th", 32: "resnet32-d509ac18.th", 44: "resnet44-014dd654.th"}
    paths = {depth: shared(f"data/checkpoints/{name}") for depth, name in files.items()}
    for depth in files:
        (architecture,) = find(f"small:cifar_resnet{depth}")
        fits = {other for other, path in paths.items() if misfit(architecture, path) is None}
        assert fits == {depth}
