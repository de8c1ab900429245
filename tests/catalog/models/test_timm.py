"""timm: all its names, its own transforms on real pictures, its own keys, and reported accuracy."""

from __future__ import annotations

import dataclasses
import functools
import socket
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file
from timm.data import create_transform, resolve_data_config
from timm.models import PretrainedCfg, _builder, get_pretrained_cfg
from torchvision import transforms

from catalog.checkpoint_references import resolve
from catalog.datasets.images.decoding import fitted
from catalog.model_loading import load_model
from catalog.models import find, timm_results
from catalog.models.base import InputTransform, Published
from catalog.models.tables import FOLDER, read_table
from catalog.models.timm import TimmSource, adapt
from survey.errors import CheckpointError, UnknownName
from tests.shared_data import shared

pytestmark = pytest.mark.slow(seconds=9)

SOURCE = TimmSource()
PUBLISHED = {weights.name: weights for weights in SOURCE.published()}

#: timm's own smallest networks, of as many kinds as it has them.
SMALL = [name for name in SOURCE.names() if name.startswith("test_")]


def timm_transform(name: str, **options: Any) -> transforms.Compose:
    """Return what timm evaluates a pretrained name with, pixels left as they are."""
    config = resolve_data_config(pretrained_cfg=get_pretrained_cfg(name).to_dict())
    return create_transform(**config, is_training=False, **options)


def blank(weights: Published) -> torch.nn.Module:
    """Return the network of published weights without memory for its values."""
    assert weights.build is not None
    with torch.device("meta"):
        return weights.build()


def test_all_names_of_the_installed_package_are_there() -> None:
    assert SOURCE.names() == sorted(timm.list_models())
    assert list(PUBLISHED) == sorted(timm.list_models(pretrained=True))
    assert {weights.architecture for weights in PUBLISHED.values()} <= {
        f"timm:{name}" for name in SOURCE.names()
    }


def test_an_architecture_is_as_its_default_configuration_says() -> None:
    resnet = SOURCE.get("resnet50")
    assert (resnet.full_name, resnet.module, resnet.classes) == ("timm:resnet50", "resnet", 1000)
    assert resnet.transform == InputTransform(size=224, resize=235, interpolation="bicubic")
    assert (resnet.family, SOURCE.get("vit_tiny_patch16_224").family) == ("ResNet", "ViT")
    assert SOURCE.get("vit_base_patch14_dinov2").classes == 0
    assert {SOURCE.get(name).transform.interpolation for name in SOURCE.names()} == {
        "bilinear",
        "bicubic",
    }


def test_exactly_the_default_tag_is_the_default() -> None:
    defaults = [weights for weights in PUBLISHED.values() if weights.default]
    for weights in defaults:
        architecture = weights.architecture.removeprefix("timm:")
        assert weights.tag == get_pretrained_cfg(architecture).tag
    # One for every architecture that has any weights.
    architectures = [weights.architecture for weights in defaults]
    assert len(architectures) == len(set(architectures))
    assert set(architectures) == {weights.architecture for weights in PUBLISHED.values()}


def test_a_name_alone_is_torchvisions_before_timms() -> None:
    assert [each.full_name for each in find("resnet50")] == ["torchvision:resnet50"]
    assert [each.full_name for each in find("timm:resnet50")] == ["timm:resnet50"]
    assert [each.full_name for each in find("resnet10t")] == ["timm:resnet10t"]
    both = [each.full_name for each in find("*:resnet50")]
    assert both == ["torchvision:resnet50", "timm:resnet50"]
    names = {each.name for each in find("timm:convnext*")}
    assert names == {name for name in timm.list_models() if name.startswith("convnext")}


@pytest.mark.parametrize("name", ["timm:resnet51", "timm:resnet50.a1_in1k"])
def test_unknown_names_are_answered_with_close_ones(name: str) -> None:
    with pytest.raises(UnknownName, match="unknown architecture") as caught:
        find(name)
    assert "timm:resnet50" in str(caught.value.hint)


def test_accuracies_are_joined_by_name_and_image_size() -> None:
    first = (FOLDER / "timm_results.csv").read_text(encoding="utf-8").splitlines()[0]
    assert "commit aa4b585" in first
    assert "Apache License 2.0" in first
    assert timm_results.SOURCE.endswith("commit aa4b585")
    rows = list(read_table("timm_results.csv"))
    joined = [(name, each) for name, weights in PUBLISHED.items() for each in weights.reported]
    assert sorted((name, each.image_size) for name, each in joined) == sorted(
        (row["name"], int(row["image_size"])) for row in rows if row["name"] in PUBLISHED
    )
    for name, each in joined:
        assert PUBLISHED[name].classes in {None, 1000}
        assert 0 < each.top1 <= (each.top5 or 0) < 1
        assert (each.dataset, each.protocol) == ("imagenet", "supervised")


def test_the_accuracy_at_the_size_of_the_transform_comes_first() -> None:
    assert [(each.image_size, each.top1) for each in PUBLISHED["resnet50.a1_in1k"].reported] == [
        (224, 0.80382),
        (288, 0.8124),
    ]
    for weights in PUBLISHED.values():
        if weights.reported:
            assert weights.reported[0].image_size == weights.transform.size
    assert PUBLISHED["vit_base_patch16_224.mae"].reported == ()


@pytest.mark.parametrize(
    "name",
    [
        "resnet50.a1_in1k",  # bicubic, centre
        "resnet18.tv_in1k",  # bilinear, centre
        "convnext_tiny.in12k_ft_in1k_384",  # squashed whole
        "dm_nfnet_f0.dm_in1k",  # squashed, then cropped
        "volo_d4_448.sail_in1k",  # padded: resized to less than the crop
        "vit_base_patch16_clip_224.openai",  # another mean and deviation
    ],
)
def test_pixels_are_timms_own(name: str) -> None:
    pictures = sorted(shared("data/imagenet-sample").rglob("*.jpg"))[:40:10]
    transform = PUBLISHED[name].transform
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (transform.mean, transform.std))
    for path in pictures:
        picture = Image.open(path).convert("RGB")
        assert picture.width != picture.height
        pixels = fitted(picture, transform)
        assert torch.equal(pixels, timm_transform(name, normalize=False)(picture))
        torch.testing.assert_close((pixels / 255 - mean) / std, timm_transform(name)(picture))


def test_every_transform_that_is_not_refused_has_timms_numbers() -> None:
    for name, weights in PUBLISHED.items():
        if weights.refusal is not None:
            continue
        resize, crop, _, normalize = timm_transform(name).transforms
        ours = weights.transform
        sides = [ours.resize] * (2 if ours.crop == "squash" else 1)
        assert (list(resize.size) if ours.crop == "squash" else [resize.size]) == sides
        assert resize.interpolation.value == ours.interpolation
        assert tuple(crop.size) == (ours.size, ours.size)
        assert normalize.mean.tolist() == pytest.approx(ours.mean)
        assert normalize.std.tolist() == pytest.approx(ours.std)


def test_what_cannot_be_measured_as_it_was_trained_is_refused() -> None:
    refused = {name: weights.refusal for name, weights in PUBLISHED.items() if weights.refusal}
    assert len(refused) < 20
    assert "1024 x 768" in str(refused["vit_base_patch16_sapiens2.fb"])
    assert "pads images" in str(refused["deepseek_vit_412m.deepseek_v4_1_flash"])
    assert "head.norm" in str(refused["davit_base_fl.msft_florence2"])


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hf_hub_id": "timm/x", "input_size": (4, 224, 224)}, "4 channels"),
        ({"hf_hub_id": "timm/x", "interpolation": "lanczos"}, "lanczos"),
        ({}, "no single address"),
        ({"url": ("https://example.org/a", "b")}, "no single address"),
        ({"url": "https://example.org/a.npz", "custom_load": True}, "custom_load"),
    ],
)
def test_configurations_of_other_releases_are_refused(
    changes: dict[str, Any], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = PretrainedCfg(**changes)
    monkeypatch.setattr(timm, "list_models", lambda **_: ["resnet18.other"])
    monkeypatch.setattr(timm.models, "get_pretrained_cfg", lambda *_, **__: config)
    _, (weights,) = SOURCE.read()
    assert named in str(weights.refusal)


def test_files_are_on_the_hub_or_at_their_publishers() -> None:
    hub = PUBLISHED["resnet50.a1_in1k"].file
    assert hub is not None
    assert hub.url == "hf://timm/resnet50.a1_in1k/model.safetensors"
    assert (hub.name, hub.licence, hub.sha256_prefix) == ("model.safetensors", "apache-2.0", None)
    web = PUBLISHED["gcvit_base.in1k"].file
    assert web is not None
    assert web.url.startswith("https://github.com/")
    assert (web.name, web.sha256_prefix) == ("gcvit_base_224_nvidia-f009139b.pth", "f009139b")
    assert PUBLISHED["vit_huge_patch14_gap_224.in1k_ijepa"].rules.container == ("encoder",)
    assert (
        PUBLISHED["vit_base_patch16_clip_quickgelu_224.openai"].file
        == PUBLISHED["vit_base_patch16_clip_224.openai"].file
    )


def test_weights_of_other_classes_have_their_own_network() -> None:
    weights = PUBLISHED["convnext_tiny.fb_in22k"]
    assert weights.classes == 21841
    assert SOURCE.get("convnext_tiny").classes == 1000
    assert blank(weights).state_dict()["head.fc.bias"].shape == (21841,)
    assert PUBLISHED["vit_base_patch16_224.mae"].classes == 0


@pytest.mark.parametrize("name", SMALL)
def test_a_random_initialisation_is_the_seeds_alone(name: str) -> None:
    architecture = SOURCE.get(name)
    first, second, other = (
        load_model(architecture, resolve(f"init:{seed}", architecture, Path())).model.state_dict()
        for seed in (3, 3, 4)
    )
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


def test_saved_weights_load_strictly(tmp_path: Path) -> None:
    architecture = SOURCE.get("test_vit")
    network = load_model(architecture, resolve("init:5", architecture, tmp_path)).model
    save_file(network.state_dict(), tmp_path / "vit.safetensors")
    loaded = load_model(architecture, resolve("file:vit.safetensors", architecture, tmp_path))
    state = loaded.model.state_dict()
    assert all(torch.equal(state[key], value) for key, value in network.state_dict().items())
    images = torch.rand(1, 3, architecture.transform.size, architecture.transform.size)
    with torch.inference_mode():
        assert torch.equal(loaded.model(images), network.eval()(images))
    other = SOURCE.get("test_vit2")
    with pytest.raises(CheckpointError, match="does not fit timm:test_vit2"):
        load_model(other, resolve("file:vit.safetensors", other, tmp_path))


@functools.cache
def small_state(name: str) -> dict[str, torch.Tensor]:
    weights = PUBLISHED[name]
    assert weights.build is not None
    return dict(weights.build().state_dict())


@pytest.mark.parametrize(
    "name", [f"{name}.r160_in1k" for name in SMALL if f"{name}.r160_in1k" in PUBLISHED]
)
def test_keys_that_fit_stay_as_they_are(name: str) -> None:
    adapted = adapt(PUBLISHED[name], small_state(name))
    assert adapted.keys() == small_state(name).keys()
    assert all(torch.equal(adapted[key], value) for key, value in small_state(name).items())


@pytest.mark.parametrize(
    "name", ["densenet121.ra_in1k", "crossvit_tiny_240.in1k", "inception_v3.tv_in1k", "dla34.in1k"]
)
def test_every_kind_of_renaming_is_met(name: str) -> None:
    # Functions of one argument and of two, none, and those of loaders that are not strict.
    state = blank(PUBLISHED[name]).state_dict()
    assert adapt(PUBLISHED[name], state).keys() == state.keys()


def test_foreign_keys_become_the_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("timm was about to download")

    monkeypatch.setattr(socket, "socket", refuse)
    weights = PUBLISHED["test_vit.r160_in1k"]
    state = small_state(weights.name)
    clip = {f"visual.trunk.{key}": value for key, value in state.items()}
    adapted = adapt(weights, {**clip, "logit_scale": torch.ones(())})
    assert adapted.keys() == state.keys()
    assert all(torch.equal(adapted[key], value) for key, value in state.items())


def test_a_published_file_with_foreign_keys_loads_strictly(tmp_path: Path) -> None:
    weights = PUBLISHED["test_vit.r160_in1k"]
    state = small_state(weights.name)
    path = tmp_path / "clip.safetensors"
    save_file({f"visual.trunk.{key}": value for key, value in state.items()}, path)
    architecture = SOURCE.get("test_vit")
    checkpoint = resolve("r160_in1k", architecture, tmp_path).located(path)
    loaded = load_model(architecture, checkpoint).model.state_dict()
    assert all(torch.equal(loaded[key], value) for key, value in state.items())
    lacking = {f"visual.trunk.{key}": value for key, value in list(state.items())[:-1]}
    save_file(lacking, path)
    with pytest.raises(CheckpointError, match="missing"):
        load_model(architecture, checkpoint)


def test_adapting_leaves_timm_and_the_random_state_as_they_were() -> None:
    load, state = _builder.load_pretrained, torch.default_generator.get_state()
    weights = PUBLISHED["test_vit.r160_in1k"]
    broken = {**small_state(weights.name), "patch_embed.proj.weight": torch.zeros(5)}
    with pytest.raises(CheckpointError, match=r"timm:test_vit\.r160_in1k"):
        adapt(weights, broken)
    with pytest.raises(RuntimeError, match="Unknown model"):
        adapt(dataclasses.replace(weights, name="no_such_network.tag"), {})
    assert _builder.load_pretrained is load
    assert torch.equal(torch.default_generator.get_state(), state)
