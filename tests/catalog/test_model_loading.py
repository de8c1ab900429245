"""Checkpoints: exactly the file's weights in exactly that network, or a refusal; never any code."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickle
import socket
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torchvision.models import DenseNet, VisionTransformer

from catalog.checkpoint_references import LARGEST_SEED, Checkpoint, resolve
from catalog.datasets import open_dataset
from catalog.datasets.label_map import label_map
from catalog.files import file_sha256
from catalog.model_loading import LoadedModel, load_model
from catalog.models import find
from catalog.models.base import Architecture, InputTransform
from survey.errors import CatalogError, CheckpointError
from tests.shared_data import shared

State = dict[str, torch.Tensor]


def _network() -> nn.Module:
    return nn.Sequential(
        OrderedDict(conv=nn.Conv2d(3, 4, 3), norm=nn.BatchNorm2d(4), head=nn.Linear(4, 5))
    )


def _architecture(build: Callable[[], nn.Module] = _network, **values: Any) -> Architecture:
    transform = InputTransform(size=8, resize=8)
    # A name is of one network.
    name = "tiny" if build is _network else f"tiny_{build.__code__.co_firstlineno}"
    return Architecture("test", name, "Test", 5, transform, build=build, **values)


TINY = _architecture()


@pytest.fixture
def state() -> State:
    """Return weights that no seed of this test draws by accident."""
    generator = torch.Generator().manual_seed(1234)
    return {
        key: torch.randn(tensor.shape, generator=generator)
        if tensor.is_floating_point()
        else torch.tensor(7)
        for key, tensor in _network().state_dict().items()
    }


def _load(path: Path, architecture: Architecture = TINY) -> LoadedModel:
    return load_model(architecture, resolve(f"file:{path.name}", architecture, path.parent))


def _saved(path: Path, payload: object, **options: Any) -> Path:
    torch.save(payload, path, **options)
    return path


def _assert_holds(model: nn.Module, state: State) -> None:
    loaded = model.state_dict()
    assert loaded.keys() == state.keys()
    for key, tensor in state.items():
        assert torch.equal(loaded[key], tensor), key
    assert not model.training
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())


# References.


def test_references_mean_what_they_say(tmp_path: Path) -> None:
    path = tmp_path / "w.pt"
    path.write_bytes(b"x")
    assert resolve("init:007", TINY, tmp_path) == Checkpoint("init:7", "init", seed=7)
    assert resolve("file:w.pt", TINY, tmp_path) == Checkpoint("file:w.pt", "file", path=path)
    absolute = resolve(f"file:{path}", TINY, Path("elsewhere"))
    assert absolute.path == path


@pytest.mark.parametrize(
    "reference", ["init:", "init:-1", "init:x", "init:1.5", "init:²", f"init:{2**63}", "init"]
)
def test_a_seed_is_a_whole_number(reference: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="init:"):
        resolve(reference, TINY, tmp_path)


@pytest.mark.parametrize("reference", ["", "w.pt", "file:", "bundled:1", "https://host/w.pt"])
def test_other_references_are_refused(reference: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError):
        resolve(reference, TINY, tmp_path)


def test_a_bare_path_is_answered_with_how_to_write_it(tmp_path: Path) -> None:
    (tmp_path / "w.pt").write_bytes(b"x")
    with pytest.raises(CheckpointError) as caught:
        resolve("w.pt", TINY, tmp_path)
    assert caught.value.hint == "write file:w.pt"


def test_without_bundled_weights_the_choices_are_named(tmp_path: Path) -> None:
    with pytest.raises(CatalogError) as caught:
        resolve(None, TINY, tmp_path)
    assert "init:SEED" in str(caught.value.hint)
    assert "file:PATH" in str(caught.value.hint)
    with pytest.raises(CheckpointError, match="no bundled weights"):
        resolve("bundled", TINY, tmp_path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="does not exist") as caught:
        resolve("file:none.pt", TINY, tmp_path)
    assert caught.value.hint


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "socket"])
def test_what_is_no_ordinary_file_fails_at_once_when_it_is_loaded(
    tmp_path: Path, kind: str
) -> None:
    path = tmp_path / kind
    listening = socket.socket(socket.AF_UNIX)
    make = {
        "pipe": os.mkfifo,
        "device": lambda place: place.symlink_to("/dev/zero"),
        "folder": Path.mkdir,
        "socket": lambda place: listening.bind(str(place)),
    }
    with listening:
        make[kind](path)
        checkpoint = resolve(f"file:{kind}", TINY, tmp_path)
        with pytest.raises(CheckpointError, match=str(path)) as caught:
            load_model(TINY, checkpoint)
    assert caught.value.hint


# Random initialisation.


def test_a_seed_gives_the_same_weights_and_leaves_torchs_state_alone(tmp_path: Path) -> None:
    before = torch.get_rng_state()
    first = load_model(TINY, resolve("init:3", TINY, tmp_path))
    torch.rand(5)
    other = load_model(TINY, resolve("init:4", TINY, tmp_path))
    again = load_model(TINY, resolve("init:3", TINY, tmp_path))
    _assert_holds(again.model, first.model.state_dict())
    assert not torch.equal(
        other.model.state_dict()["head.bias"], first.model.state_dict()["head.bias"]
    )
    assert first.sha256 == hashlib.sha256(b"init:3").hexdigest()
    torch.set_rng_state(before)
    load_model(TINY, resolve("init:3", TINY, tmp_path))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_seed_is_torchs_own(tmp_path: Path) -> None:
    loaded = load_model(TINY, resolve("init:11", TINY, tmp_path))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        expected = _network()
    _assert_holds(loaded.model, expected.state_dict())


def _of_a_file() -> nn.Module:
    network = _network()
    for parameter in network.parameters():
        nn.init.normal_(parameter, generator=torch.Generator().manual_seed(7))
    return network


def _lazy() -> nn.Module:
    return nn.Sequential(nn.ReLU(), nn.LazyLinear(3))


def test_weights_that_no_seed_changes_are_not_recorded_as_random(tmp_path: Path) -> None:
    brings = _architecture(_of_a_file, brings_weights=True)
    for seed in (0, 1, LARGEST_SEED):
        with pytest.raises(CheckpointError, match=f"init:{seed} ") as caught:
            load_model(brings, resolve(f"init:{seed}", brings, tmp_path))
        assert caught.value.hint
    _assert_holds(
        load_model(brings, resolve("built", brings, tmp_path)).model, _of_a_file().state_dict()
    )
    # A seed changes these, or there is nothing that it could change yet.
    for build in (_network, nn.ReLU, _lazy):
        network = Architecture(
            "test", "random", "Test", 5, TINY.transform, brings_weights=True, build=build
        )
        assert load_model(network, resolve("init:0", network, tmp_path)).sha256


def test_only_a_network_that_may_bring_its_weights_is_built_twice(tmp_path: Path) -> None:
    built: list[nn.Module] = []

    def build() -> nn.Module:
        built.append(_network())
        return built[-1]

    for brings_weights, times in ((False, 1), (True, 2)):
        built.clear()
        architecture = _architecture(build, brings_weights=brings_weights)
        loaded = load_model(architecture, resolve("init:5", architecture, tmp_path))
        assert (len(built), loaded.model) == (times, built[0])


# Files that fit.


@pytest.mark.parametrize(
    "container",
    [
        lambda state: state,
        OrderedDict,
        lambda state: {"state_dict": state, "best_prec1": 91.7, "epoch": 3},
        lambda state: {"epoch": 1, "model": {"state_dict": state}, "optimizer": {"lr": 0.1}},
        lambda state: {"model_state_dict": state},
        # Settings under the names of weights.
        lambda state: {"model": {"name": "tiny", "net": {"depth": 3}}, "weights": state},
        lambda state: {"model": {"depth": 3}, "net": {"model": {"x": 1}, "module": state}},
        lambda state: {"net": state, "acc": torch.tensor(3.0)},
        lambda state: {f"module.{key}": tensor for key, tensor in state.items()},
        lambda state: {f"module._orig_mod.model.{key}": tensor for key, tensor in state.items()},
        lambda state: {
            "weights": {
                f"backbone.{key}": nn.Parameter(tensor, tensor.is_floating_point())
                for key, tensor in state.items()
            }
        },
    ],
)
@pytest.mark.parametrize("zipped", [True, False])
def test_wrapped_and_prefixed_files_give_the_same_weights(
    tmp_path: Path, state: State, container: Callable[[State], object], zipped: bool
) -> None:
    path = _saved(tmp_path / "w.th", container(state), _use_new_zipfile_serialization=zipped)
    loaded = _load(path)
    _assert_holds(loaded.model, state)
    assert loaded.dropped_keys == ()
    assert loaded.sha256 == hashlib.sha256(path.read_bytes()).hexdigest() == file_sha256(path)


@pytest.mark.parametrize("name", ["w.safetensors", "w.pth", "w"])
def test_safetensors_are_known_by_content(tmp_path: Path, state: State, name: str) -> None:
    save_file(state, tmp_path / name)
    _assert_holds(_load(tmp_path / name).model, state)


def test_a_safetensors_header_may_have_the_length_that_reads_as_a_web_page(
    tmp_path: Path, state: State
) -> None:
    save_file(state, tmp_path / "w")
    content = (tmp_path / "w").read_bytes()
    length = int.from_bytes(content[:8], "little")
    start = b" <" + bytes(6)
    header = content[8 : 8 + length].ljust(int.from_bytes(start, "little"))
    (tmp_path / "w").write_bytes(start + header + content[8 + length :])
    _assert_holds(_load(tmp_path / "w").model, state)


def test_torch_files_may_be_called_safetensors(tmp_path: Path, state: State) -> None:
    _assert_holds(_load(_saved(tmp_path / "w.safetensors", state)).model, state)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floating_types_become_float32(
    tmp_path: Path, state: State, dtype: torch.dtype
) -> None:
    short = {k: t.to(dtype) if t.is_floating_point() else t for k, t in state.items()}
    loaded = _load(_saved(tmp_path / "w.pt", short))
    _assert_holds(
        loaded.model, {k: t.float() if t.is_floating_point() else t for k, t in short.items()}
    )


def test_old_files_may_lack_counters(tmp_path: Path, state: State) -> None:
    del state["norm.num_batches_tracked"]
    loaded = _load(_saved(tmp_path / "w.pt", state))
    assert torch.equal(loaded.model.state_dict()["norm.weight"], state["norm.weight"])


def test_entries_that_are_no_tensors_are_recorded(tmp_path: Path, state: State) -> None:
    assert _load(_saved(tmp_path / "w.pt", {**state, "epoch": 3})).dropped_keys == ("epoch",)


def test_a_prefix_of_the_network_itself_stays(tmp_path: Path, state: State) -> None:
    architecture = _architecture(lambda: nn.ModuleDict({"model": _network()}))
    plain = {f"model.{key}": tensor for key, tensor in state.items()}
    _assert_holds(_load(_saved(tmp_path / "own.pt", plain), architecture).model, plain)
    wrapped = {f"module.model.{key}": tensor for key, tensor in state.items()}
    _assert_holds(_load(_saved(tmp_path / "wrapped.pt", wrapped), architecture).model, plain)


def test_a_prefix_inside_a_key_stays(tmp_path: Path) -> None:
    architecture = _architecture(lambda: nn.ModuleDict({"a": nn.ModuleDict({"model": _network()})}))
    plain = architecture.build().state_dict()
    wrapped = {f"model.{key}": tensor for key, tensor in plain.items()}
    _assert_holds(_load(_saved(tmp_path / "w.pt", wrapped), architecture).model, plain)


def test_old_vision_transformer_keys_are_renamed_by_their_version(tmp_path: Path) -> None:
    architecture = _architecture(lambda: VisionTransformer(16, 8, 1, 2, 8, 16, num_classes=5))
    new = architecture.build().state_dict()
    old = OrderedDict(
        (
            f"module.{key}".replace("mlp.0.", "mlp.linear_1.").replace("mlp.3.", "mlp.linear_2."),
            tensor,
        )
        for key, tensor in new.items()
    )
    assert any("linear_1" in key for key in old)
    old._metadata = {  # type: ignore[attr-defined]
        f"module.{key}" if key else "module": {**value, "version": 1}
        for key, value in new._metadata.items()  # type: ignore[attr-defined]
    }
    _assert_holds(_load(_saved(tmp_path / "w.pt", old), architecture).model, dict(new))


def test_old_densenet_keys_are_renamed(tmp_path: Path) -> None:
    architecture = _architecture(lambda: DenseNet(4, (2, 2), 8, num_classes=5))
    new = architecture.build().state_dict()
    old = {
        key.replace("norm1", "norm.1").replace("conv2", "conv.2") if "denselayer" in key else key: t
        for key, t in new.items()
    }
    assert old.keys() != new.keys()
    _assert_holds(_load(_saved(tmp_path / "w.pt", old), architecture).model, dict(new))


@pytest.mark.parametrize("name", ["mnasnet0_5", "shufflenet_v2_x0_5"])
def test_versioned_networks_load_from_files_without_versions(tmp_path: Path, name: str) -> None:
    (architecture,) = find(f"torchvision:{name}")
    seeded = load_model(architecture, resolve("init:5", architecture, tmp_path)).model.state_dict()
    save_file(dict(seeded), tmp_path / "w.safetensors")
    _assert_holds(_load(tmp_path / "w.safetensors", architecture).model, dict(seeded))


# Files that do not fit.


def _drop(state: State) -> State:
    return {key: tensor for key, tensor in state.items() if not key.startswith("head")}


@pytest.mark.parametrize("kind", ["torch", "safetensors"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_drop, r"2 of 9 keys missing \(head.weight, head.bias\)"),
        (lambda s: {**s, "x.y": torch.zeros(2)}, r"1 unexpected \(x.y\)"),
        (lambda s: {**s, "head.weight": torch.zeros(6, 4)}, r"head.weight is 6x4, needed 5x4"),
        (
            lambda s: {f"other.{key}": t for key, t in s.items() if key != "norm.bias"},
            r"8 of 9 keys missing \(.*, \.\.\.\), 8 unexpected",
        ),
    ],
)
def test_a_misfit_names_what_is_wrong(
    tmp_path: Path, state: State, kind: str, change: Callable[[State], State], words: str
) -> None:
    path = tmp_path / "w"
    if kind == "torch":
        _saved(path, change(state))
    else:
        save_file(change(state), path)
    with pytest.raises(CheckpointError, match=words) as caught:
        _load(path)
    assert "does not fit test:tiny" in caught.value.message
    assert "different architecture" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda t: (t * 10).to(torch.int8), "int8"),
        (lambda t: t.to(torch.complex64), "complex64"),
        (lambda t: t.to(torch.float8_e4m3fn), "float8"),
        (lambda t: t.to_sparse(), "sparse"),
        (lambda t: t.to("meta"), "without values"),
    ],
)
def test_weights_that_are_no_dense_floats_are_refused(
    tmp_path: Path, state: State, make: Callable[[torch.Tensor], torch.Tensor], words: str
) -> None:
    state["head.weight"] = make(state["head.weight"])
    with pytest.raises(CheckpointError, match=words):
        _load(_saved(tmp_path / "w.pt", state))


@pytest.mark.parametrize(
    "payload", [[1, 2], {}, {"a": 1}, {"student": {"w": torch.ones(1)}}, torch.ones(2), "text"]
)
def test_a_file_without_named_tensors_says_what_it_holds(tmp_path: Path, payload: object) -> None:
    with pytest.raises(CheckpointError, match="no named tensors"):
        _load(_saved(tmp_path / "w.pt", payload))


def test_a_container_in_itself_ends(tmp_path: Path) -> None:
    payload: dict[str, Any] = {"epoch": 1}
    payload["model"] = payload
    with pytest.raises(CheckpointError, match="no named tensors"):
        _load(_saved(tmp_path / "w.pt", payload))


# Files that would run code.


class _Bomb:
    def __init__(self, victim: Path) -> None:
        self.victim = victim

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.victim,)


def _plain_pickle(payload: object, path: Path, protocol: int) -> None:
    path.write_bytes(pickle.dumps(payload, protocol=protocol))


@pytest.mark.parametrize("form", ["zip", "legacy", "zip4", *range(6)])
def test_a_pickle_that_would_run_code_runs_none(
    tmp_path: Path, state: State, form: str | int
) -> None:
    path, victim = tmp_path / "bomb.pt", tmp_path / "exploded"
    payload = {"state_dict": state, "extra": _Bomb(victim)}
    if isinstance(form, int):
        _plain_pickle(_Bomb(victim), path, form)
    elif form == "zip4":
        _saved(path, payload, pickle_protocol=4)
    else:
        _saved(path, payload, _use_new_zipfile_serialization=form == "zip")
    with pytest.raises(CheckpointError, match="more than tensors") as caught:
        _load(path)
    assert "pathlib" in caught.value.message or "getattr" in caught.value.message
    assert not victim.exists()


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        (nn.Linear(2, 2), "torch.nn.modules.linear.Linear"),
        (Fraction(1, 3), "fractions.Fraction"),
    ],
)
def test_other_objects_are_refused_by_name(
    tmp_path: Path, state: State, extra: object, named: str
) -> None:
    path = _saved(tmp_path / "w.pt", {"model": state, "args": extra})
    with pytest.raises(CheckpointError, match="more than tensors") as caught:
        _load(path)
    assert named in caught.value.message


# Files that are none.


def _bytes(payload: object, **options: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(payload, buffer, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"<!DOCTYPE html><html><body>404</body></html>", "web page"),
        (b"\n<?xml version='1.0'?><Error/>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS"),
        (b"hello, this is a text file", "damaged"),
        (b"PK\x03\x04 but no archive", "damaged"),
        (bytes(range(256)) * 4, "damaged"),
        (b"\x10\x00\x00\x00\x00\x00\x00\x00{not json at all", "damaged"),
    ],
)
def test_what_is_no_file_of_weights_is_called_by_its_name(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "w.pt"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=words) as caught:
        _load(path)
    assert caught.value.hint


@pytest.mark.parametrize("form", ["zip", "legacy", "safetensors"])
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, state: State, form: str) -> None:
    whole = tmp_path / "whole"
    if form == "safetensors":
        save_file(state, whole)
    else:
        _saved(whole, state, _use_new_zipfile_serialization=form == "zip")
    content = whole.read_bytes()
    for kept in np.linspace(1, len(content) - 1, 60).astype(int):
        path = tmp_path / "cut"
        path.write_bytes(content[:kept])
        # Cut in the middle of a class's name, a legacy file asks for a class that is none.
        with pytest.raises(CheckpointError, match=r"read as weights|more than tensors"):
            _load(path)


def test_flipped_bytes_give_weights_or_a_refusal(tmp_path: Path, state: State) -> None:
    generator = np.random.default_rng(0)
    for content in (_bytes(state), _bytes(state, _use_new_zipfile_serialization=False)):
        for _ in range(150):
            damaged = bytearray(content)
            damaged[generator.integers(len(damaged))] ^= 1 << int(generator.integers(8))
            path = tmp_path / "damaged"
            path.write_bytes(bytes(damaged))
            # Anything but weights or this refusal fails the test.
            with contextlib.suppress(CheckpointError):
                _load(path)


def test_torchscript_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scripted.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("scripted/data.pkl", b"x")
        archive.writestr("scripted/constants.pkl", b"x")
    with pytest.raises(CheckpointError, match="TorchScript"):
        _load(path)


# Real checkpoints.


def _hits(model: nn.Module, architecture: Architecture, folder: Path) -> tuple[int, int]:
    """Return the number of images, at most 512, and of those whose label is the largest output."""
    dataset = open_dataset(f"folder:{folder}", Path())
    labels = label_map(dataset.class_names, architecture.classes)
    assert labels is not None
    samples = list(islice(dataset.samples(architecture.transform), 512))
    mean = torch.tensor(architecture.transform.mean).view(3, 1, 1)
    std = torch.tensor(architecture.transform.std).view(3, 1, 1)
    hits = 0
    with torch.inference_mode():
        for start in range(0, len(samples), 64):
            batch = samples[start : start + 64]
            pixels = torch.stack([s.pixels for s in batch if s.pixels is not None])
            truth = torch.tensor([labels[s.label] for s in batch if s.label is not None])
            outputs = model((pixels.float() / 255 - mean) / std)
            hits += int((outputs.argmax(dim=1) == truth).sum())
    return len(samples), hits


@pytest.mark.slow(seconds=2)
@pytest.mark.real_data
def test_a_real_checkpoint_reaches_its_accuracy_to_the_last_image() -> None:
    # Of all 2560 images 2070, as the acceptance tests count them through the command line.
    checkpoint = shared("data/checkpoints/resnet20-12fca82f.th")
    (architecture,) = find("small:cifar_resnet20")
    loaded = _load(checkpoint, architecture)
    assert loaded.dropped_keys == ()
    assert _hits(loaded.model, architecture, shared("data/cifar10-sample")) == (512, 411)


@pytest.mark.real_data
def test_a_real_checkpoint_of_another_depth_is_refused() -> None:
    checkpoint = shared("data/checkpoints/resnet32-d509ac18.th")
    (architecture,) = find("small:cifar_resnet20")
    with pytest.raises(CheckpointError, match=r"cifar_resnet20: .*unexpected"):
        _load(checkpoint, architecture)
