"""Files whose classifier has another number of outputs than the published ones, or none."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest
import torch
from torch import nn

from catalog.checkpoint_files import expanded
from catalog.checkpoint_references import resolve
from catalog.files import file_sha256
from catalog.model_fit import _FITTING, definition_version, fit_for, misfit
from catalog.model_loading import LoadedModel, load_model
from catalog.models import find
from catalog.models.base import Architecture, InputTransform
from catalog.open_home import open_home
from catalog.registry.registry import Registry
from catalog.weights.fitting import build_for, without_classifier
from jobs.planning.holdings import Holdings
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
    assert fit_for(architecture, checkpoint).classes == loaded.classes
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


def _resnet() -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    (architecture,) = find("torchvision:resnet18")
    return dict(architecture.build().state_dict())


def _below(prefix: str, state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {prefix + key: tensor for key, tensor in state.items()}


WHOLE = _resnet()
BODY = {key: tensor for key, tensor in WHOLE.items() if not key.startswith("fc.")}
OTHER = {key: tensor + 1 for key, tensor in BODY.items()}
PROJECTION = {"0.weight": torch.ones(8, 512), "0.bias": torch.ones(8), "2.weight": torch.ones(4, 8)}
#: What training scripts save, the part that is named, and whether the classifier is in it.
LAYOUTS = {
    "averaged": ({**_below("module.", WHOLE), "n_averaged": torch.tensor(3)}, None, True),
    "criterion": (
        {"state_dict": {**_below("model.", WHOLE), "criterion.weight": torch.ones(1000)}},
        None,
        True,
    ),
    "projection": ({**BODY, **_below("fc.", PROJECTION)}, None, False),
    "byol": (
        {**_below("online_encoder.net.", BODY), **_below("predictor.", PROJECTION)},
        None,
        False,
    ),
    "lightly": (
        {**_below("backbone.", BODY), **_below("projection_head.", PROJECTION)},
        None,
        False,
    ),
    "moco": (
        {
            "state_dict": {
                **_below("module.encoder_q.", {**BODY, **_below("fc.", PROJECTION)}),
                **_below("module.encoder_k.", {**OTHER, **_below("fc.", PROJECTION)}),
                "module.queue": torch.ones(8, 16),
            }
        },
        "module.encoder_q",
        False,
    ),
    "dino": (
        {
            "student": _below("module.backbone.", OTHER),
            "teacher": {
                **_below("module.backbone.", BODY),
                **_below("module.head.", PROJECTION),
            },
            "epoch": 3,
        },
        "teacher",
        False,
    ),
    "ema": ({"state_dict": _below("", OTHER), "state_dict_ema": WHOLE}, "state_dict_ema", True),
    "deep": ({"state.dict": {"a": {"b.c": WHOLE}}, "x": 1}, "state.dict.a.b.c", True),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_training_scripts_save_is_loaded(tmp_path: Path, name: str) -> None:
    saved, part, classifies = LAYOUTS[name]
    torch.save(saved, tmp_path / "saved.pth")
    (architecture,) = find("torchvision:resnet18")
    reference = "file:saved.pth" + (f"#{part}" if part else "")
    checkpoint = resolve(reference, architecture, tmp_path)
    assert (checkpoint.reference, checkpoint.part) == (reference, part)
    assert misfit(architecture, *checkpoint.files, part=part) is None
    loaded = load_model(architecture, checkpoint)
    assert loaded.classes == (1000 if classifies else 0)
    wanted = WHOLE if classifies else BODY
    state = loaded.model.state_dict()
    assert state.keys() == wanted.keys()
    assert all(torch.equal(state[key], value) for key, value in wanted.items())


def test_what_could_be_another_network_or_part_is_refused(tmp_path: Path) -> None:
    (architecture,), (deeper,) = find("torchvision:resnet18"), find("torchvision:resnet34")
    more = deeper.build().state_dict()
    refused = {
        # The deeper network has every key of the other one, in the same shapes.
        "deeper": {**_below("model.", dict(more)), "criterion.weight": torch.ones(4)},
        "two": {**_below("encoder_q.", BODY), **_below("encoder_k.", OTHER)},
        # One that lacks a key or has another in its place.
        "damaged at the top": {
            **{k: v for k, v in WHOLE.items() if k != "bn1.running_var"},
            **_below("ema.", WHOLE),
        },
        "damaged": {
            **{f"module.{k}": v for k, v in WHOLE.items() if k != "bn1.running_var"},
            **_below("ema.", WHOLE),
        },
        "parametrised": {
            **{f"student.{k}" if k != "conv1.weight" else f"student.{k}_v": OTHER[k] for k in BODY},
            **_below("teacher.", BODY),
        },
        "dino": LAYOUTS["dino"][0],
    }
    for name, saved in refused.items():
        torch.save(saved, tmp_path / name)
        assert misfit(architecture, tmp_path / name) is not None
        with pytest.raises(CheckpointError) as caught:
            load_model(architecture, resolve(f"file:{name}", architecture, tmp_path))
        places = {"two": "#encoder_q", "dino": "#student", "damaged at the top": "#ema"}
        named = places.get(name, "")
        assert named in caught.value.message
    for part in ("encoder", "encoder_q.conv1", "encoder_q.", "weight"):
        assert misfit(architecture, tmp_path / "two", part=part) is not None


@pytest.mark.parametrize("classes", [1000, 7, 0])
@pytest.mark.parametrize("prefix", ["ema.", "teacher.module.", "ema[0]."])
def test_of_two_networks_the_one_at_the_top_needs_no_name(
    tmp_path: Path, prefix: str, classes: int
) -> None:
    (architecture,) = find("torchvision:resnet18")
    network = dict(build_for(architecture, classes).state_dict())
    below = _below(prefix, {key: tensor + 1 for key, tensor in network.items()})
    torch.save({"state_dict": {**below, **network}}, tmp_path / "two.pth")
    loaded = _loaded("torchvision:resnet18", tmp_path / "two.pth")
    assert (loaded.classes, set(loaded.dropped_keys)) == (classes, set(below))
    state = loaded.model.state_dict()
    assert state.keys() == network.keys()
    assert all(torch.equal(state[key], value) for key, value in network.items())
    if "[" in prefix:
        # In a reference they are a glob's.
        return
    part = resolve(f"file:two.pth#{prefix.removesuffix('.')}", architecture, tmp_path)
    state = load_model(architecture, part).model.state_dict()
    assert all(torch.equal(state[key], value + 1) for key, value in network.items())


def test_a_part_with_two_networks_below_names_one_of_them(tmp_path: Path) -> None:
    (architecture,) = find("torchvision:resnet18")
    torch.save({**_below("q.net.", BODY), **_below("k.net.", OTHER)}, tmp_path / "two.pth")
    checkpoint = resolve("file:two.pth#q", architecture, tmp_path)
    state = load_model(architecture, checkpoint).model.state_dict()
    assert all(torch.equal(state[key], value) for key, value in BODY.items())
    whole = resolve("file:two.pth", architecture, tmp_path)
    verdicts = [Holdings().misfit(architecture, each, "") for each in (checkpoint, whole)]
    assert [verdict is None for verdict in verdicts] == [True, False]


def test_verdicts_from_before_a_change_of_what_fits_are_not_kept(tmp_path: Path) -> None:
    (architecture,) = find("small:cifar_resnet8")
    torch.save(build_for(architecture, 7).state_dict(), tmp_path / "seven.pth")
    checkpoint = resolve("file:seven.pth", architecture, tmp_path)
    now = definition_version(architecture)
    assert now is not None
    with Registry(open_home(tmp_path / "home", create=True)) as registry:
        before = now.removesuffix(_FITTING)
        registry.hashes.misfit(f"abc {architecture.full_name}", before, lambda: "another shape")
        holdings = Holdings(hashes=registry.hashes)
        assert holdings.misfit(architecture, checkpoint, "abc") is None


@pytest.mark.parametrize("bias", [True, False])
def test_one_layer_in_the_place_of_the_classifier_is_the_classifier(
    tmp_path: Path, bias: bool
) -> None:
    (architecture,) = find("torchvision:resnet18")
    network = architecture.build()
    network.fc = nn.Sequential(nn.Dropout(0.2), nn.Linear(512, 7, bias=bias))
    torch.save(_below("module.", dict(network.state_dict())), tmp_path / "own.pth")
    loaded = _loaded("torchvision:resnet18", tmp_path / "own.pth")
    if not bias:
        # It is none of the network's, which has one.
        assert (loaded.classes, loaded.dropped_keys) == (0, ("module.fc.1.weight",))
        return
    assert (loaded.classes, loaded.dropped_keys) == (7, ())
    images = torch.rand(2, *architecture.transform.shape)
    with torch.inference_mode():
        assert torch.equal(loaded.model(images), network.eval()(images))


def test_a_large_dict_that_is_named_often_is_not_read_as_often(tmp_path: Path) -> None:
    (architecture,) = find("small:cifar_resnet8")
    large = {str(number): number for number in range(20_000)}
    torch.save({str(number): large for number in range(20_000)}, tmp_path / "large.pth")
    reads = 0

    def trace(frame: FrameType, event: str, _: object) -> None:
        nonlocal reads
        reads += event == "call" and frame.f_code.co_name == "<genexpr>"

    sys.setprofile(trace)
    try:
        assert misfit(architecture, tmp_path / "large.pth") is not None
    finally:
        sys.setprofile(None)
    assert reads < 200_000


def test_a_part_is_another_checkpoint_and_a_name_with_a_hash_is_a_name(tmp_path: Path) -> None:
    (architecture,) = find("torchvision:resnet18")
    torch.save(LAYOUTS["ema"][0], tmp_path / "saved.pth")
    torch.save(WHOLE, tmp_path / "saved.pth#state_dict_gone")
    parts = ("", "#state_dict", "#state_dict_ema", "#state_dict_gone")
    resolved = [resolve(f"file:saved.pth{each}", architecture, tmp_path) for each in parts]
    assert [each.part for each in resolved] == [None, "state_dict", "state_dict_ema", None]
    hashes = [each.sha256() for each in resolved]
    assert len(set(hashes)) == len(parts)
    assert hashes[0] == file_sha256(tmp_path / "saved.pth")
    assert hashes == [Holdings().sha256(each) for each in resolved]
    assert expanded("file:sav*.pth#state_dict_ema", tmp_path) == ["file:saved.pth#state_dict_ema"]
    (tmp_path / "runs#1").mkdir()
    torch.save(WHOLE, tmp_path / "runs#1" / "b#2.pth")
    for pattern in ("file:runs#1/*.pth", "file:runs#*/b#2.pth", "file:runs#1/b#*.pth"):
        assert expanded(pattern, tmp_path) == ["file:runs#1/b#2.pth"]
